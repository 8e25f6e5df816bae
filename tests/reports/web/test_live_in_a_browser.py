"""The live page during a real run, side by side, the site and the search box, in a browser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from tests.helpers.made_experiments import written
from tests.helpers.warm import start_levelfield
from tests.helpers.web_pages import CONTRAST, NAMELESS, Watched, served
from tests.retrieval.index.conftest import fill, make_model

import levelfield as lf
from levelfield.reports.web import write_site
from levelfield.retrieval.index import add_images, images_from_folder, open_or_create_index

Opener = Callable[..., Watched]
METHODS = {"contrastive": 0.52, "triplet": 0.50, "arcface": 0.40}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("results")
    for number, dataset in enumerate(("cub200", "cars196", "sop")):
        means = {method: mean - 0.1 * number for method, mean in METHODS.items()} | {"untrained": 0.05}
        written(root / dataset, name=dataset, dataset=dataset, means=means, trials=60)
    return root


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[str]:
    with served(str(directory)) as address:
        yield address


GATED = """
import time
from pathlib import Path
import levelfield as lf
from levelfield.losses.contrastive import Contrastive

@lf.losses.register("gated", space={{"neg_margin": lf.Float(0.0, 1.0)}})
class Gated(Contrastive):
    def forward(self, *batch):
        while any(Path({runs!r}).glob("*/searches/*/trial-*.json")) and not Path({gate!r}).exists():
            time.sleep(0.01)
        return super().forward(*batch)
"""


def test_a_new_trial_appears_without_a_reload(
    tiny: dict[str, Any], tmp_path: Path, open_page: Opener
) -> None:
    """A run that is started after the page was opened shows up, moves on, and ends, by itself.

    Its second trial waits until the page has shown the first: a fast machine must not outrun the page.
    """
    runs, gate, plugin = tmp_path / "runs", tmp_path / "gate", tmp_path / "gated_plugin.py"
    runs.mkdir()
    plugin.write_text(GATED.format(runs=str(runs), gate=str(gate)))
    tiny |= {"methods": ["gated"], "search": {"trials": 3, "sampler": "random"}, "confirm": {"reruns": 1}}
    tiny["plugins"] = [*tiny["plugins"], str(plugin)]
    file = tmp_path / "experiment.yaml"
    file.write_text(yaml.safe_dump(tiny))
    with served(str(runs)) as address:
        page = open_page(address).page
        assert "No experiments yet" in page.inner_text("main")
        run = start_levelfield(["run", str(file), "--out", str(runs / "tiny"), "--quiet"])
        try:
            page.get_by_role("link", name="tiny").first.click(timeout=120_000)
            page.evaluate("window.stayed = true")
            page.wait_for_selector("td:has-text('1 of 3')", timeout=120_000)
            gate.touch()
            page.wait_for_selector("td:has-text('3 of 3')", timeout=120_000)
            page.wait_for_selector("main:has-text('finished')", timeout=120_000)
            assert run.wait(timeout=120) == 0
        finally:
            run.kill()
            run.wait()
        assert page.evaluate("window.stayed") is True, "the page was never loaded again"
        page.wait_for_selector("section.verdict")
        page.get_by_role("link", name="The report").click()
        page.wait_for_selector("#scores")
        assert "Test scores" in page.inner_text("main")


def test_chosen_experiments_stand_side_by_side(server: str, open_page: Opener) -> None:
    page = open_page(server).page
    for name in ("cub200", "sop"):
        page.get_by_label(f"select {name}").check()
    page.get_by_role("button", name="Compare selected").click()
    page.wait_for_load_state()  # the page comes in pieces
    assert page.locator(".columns section").count() == 2
    assert "told apart in both experiments" in page.inner_text("section.verdict")
    assert page.locator(".diagram svg").count() == 0, "two experiments cannot reach the critical difference"
    page.get_by_label("Metric").select_option("precision_at_1")
    page.get_by_role("button", name="Show").click()
    page.wait_for_selector("p.lead:has-text('P@1')")
    assert "concatenated P@1" in page.inner_text("main")


def test_a_list_is_filtered_and_sorted(server: str, open_page: Opener) -> None:
    page = open_page(server).page
    rows = page.locator("table.experiments tbody tr:visible")
    assert rows.count() == 3
    page.get_by_placeholder("name, dataset").fill("cars")
    assert rows.count() == 1
    page.get_by_placeholder("name, dataset").fill("")
    page.get_by_role("button", name="experiment").click()
    assert [name.split()[0] for name in rows.all_inner_texts()] == ["cars196", "cub200", "sop"]


def test_trials_come_in_pages_and_open(server: str, open_page: Opener) -> None:
    page = open_page(server).page
    key = page.locator("table.experiments a").first.get_attribute("href")
    page.goto(f"{server}{key}/live")
    page.get_by_role("link", name="triplet").click()
    assert page.locator("tbody tr").count() == 50
    page.get_by_role("link", name="next page").click()
    assert page.locator("tbody tr").count() == 10
    page.get_by_role("link", name="trial 60").click()
    assert "Hyperparameters" in page.inner_text("main")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(server: str, open_page: Opener, scheme: str) -> None:
    watched = open_page(server, color_scheme=scheme)
    keys = [a.get_attribute("href") or "" for a in watched.page.locator("table.experiments a").all()]
    several = "&".join(f"e={key.removeprefix('/e/')}" for key in keys[:2])
    own = [f"{keys[0]}/live", f"{keys[0]}/trials?method=triplet", f"{keys[0]}/report"]
    for path in ("/", "/compare", f"/compare?{several}", *own):
        watched.page.goto(server + path)
        assert watched.page.evaluate(CONTRAST) == [], path
        assert watched.page.evaluate(NAMELESS) == [], path
        assert watched.violations() == [], path


def test_pages_fit_a_telephone(server: str, open_page: Opener) -> None:
    watched = open_page(server, width=390)
    key = watched.page.locator("table.experiments a").first.get_attribute("href")
    for path in ("/", "/compare", f"{key}/live", f"{key}/trials?method=triplet"):
        watched.page.goto(server + path)
        assert watched.overflow() == 0, path


def test_hostile_records_do_no_harm(tmp_path: Path, open_page: Opener) -> None:
    """Folders, hyperparameters, notes and reasons of failures are shown as text on every page."""
    script = "<img src=x onerror=alert(1)>\"'{{7*7}}"
    home = tmp_path / "runs" / f"<b>{script[:20]}"
    roots = [
        written(home / name, name=name, means=METHODS | {"\u05d0\u05d1": 0.2, "untrained": 0.1})
        for name in ("one", "two")
    ]
    for root in roots:
        index = json.loads((root / "experiment.json").read_text())
        index |= {"notes": [script], "split": script}
        (root / "experiment.json").write_text(json.dumps(index))
    for file in (file for root in roots for file in root.glob("searches/*/trial-*.json")):
        trial = json.loads(file.read_text())
        trial["hyperparameters"] = {script: 0.5, "other": f"</td>{script}"}
        trial["reason"] = script if trial["reason"] else ""
        file.write_text(json.dumps(trial))
    (home / "bad").mkdir()
    (home / "bad" / "experiment.json").write_text(f'{{"leaky": "{script[:10]}"}}')
    with served(str(tmp_path / "runs")) as address:
        watched = open_page(address)
        page = watched.page
        keys = [box.get_attribute("value") for box in page.locator("input[name=e]").all()]
        page.goto(f"{address}/compare?e={keys[0]}&e={keys[1]}")
        assert page.locator("section.verdict").count() == 1
        page.goto(f"{address}/e/{keys[0]}/report")
        watched.draw_all()
        assert script in page.inner_text("main")
        page.goto(f"{address}/e/{keys[0]}/live")
        watched.draw_all()
        page.get_by_role("link", name="\u05d0\u05d1").click()
        page.get_by_role("link", name="trial 1", exact=True).click()
        assert script in page.inner_text("main")
    page.goto(write_site(tmp_path / "runs" / home.name / "one", tmp_path / "site").as_uri())
    page.get_by_role("link", name="\u05d0\u05d1").click()
    assert page.locator("main img[src=x]").count() == 0


def test_the_site_sorts_filters_and_links(directory: Path, tmp_path: Path, open_page: Opener) -> None:
    first = write_site(directory, tmp_path / "site")
    watched = open_page(first.as_uri())
    page = watched.page
    links = page.get_by_role("navigation", name="Datasets").get_by_role("link").all_inner_texts()
    assert links == page.locator("h2").all_inner_texts() == ["cars196", "cub200", "sop"]
    page.evaluate("document.querySelectorAll('details.section').forEach((part) => { part.open = true; })")
    assert page.locator("table.leaderboard tbody tr:visible").count() == 4, "one dataset at a time"
    page.get_by_role("navigation", name="Datasets").get_by_role("link", name="sop").click()
    assert page.locator("h2:visible").all_inner_texts() == ["sop"]
    assert watched.violations() == []
    page.get_by_role("navigation", name="Datasets").get_by_role("link", name="cars196").click()
    table = page.locator("table.leaderboard").first
    table.get_by_role("button", name="P@1").click()
    found = table.locator("tbody tr td:nth-child(4)").all_inner_texts()
    assert (values := [float(text.split()[0]) for text in found]) == sorted(values, reverse=True)
    assert page.locator("div.verdict").count() == 3
    assert page.evaluate(CONTRAST) == [] and page.evaluate(NAMELESS) == []
    page.get_by_role("link", name="triplet").first.click()
    assert "Search space" in page.inner_text("main") and page.locator("tbody tr").count() >= 3
    page.locator("table").get_by_role("link", name="sop").first.click()
    assert watched.draw_all() >= 2
    page.get_by_role("link", name="levelfield").click()
    assert page.title() == "Leaderboard · levelfield"


def test_a_filter_does_not_ask_for_names_in_lists_of_others(
    directory: Path, tmp_path: Path, open_page: Opener
) -> None:
    page = open_page(write_site(directory, tmp_path / "site").as_uri()).page
    page.evaluate("document.querySelectorAll('details.section').forEach((part) => { part.open = true; })")
    page.get_by_placeholder("method").fill("triplet")
    rows = page.locator("table.leaderboard tbody tr:visible")
    assert [text.split()[0] for text in rows.all_inner_texts()] == ["triplet"]


def test_user_state_is_kept_on_update(tmp_path: Path, open_page: Opener) -> None:
    """Sort order, checked boxes, focus and charts are kept when the page updates."""
    for name in ("one", "two"):
        written(tmp_path / "runs" / name, name=name)
    with served(str(tmp_path / "runs")) as address:
        page = open_page(address).page
        page.get_by_label("select one").check()
        page.get_by_role("button", name="experiment").click()
        page.get_by_role("button", name="experiment").click()
        written(tmp_path / "runs" / "three", name="three")
        page.get_by_role("link", name="three").wait_for()
        assert page.get_by_label("select one").is_checked()
        names = page.locator("table.experiments tbody tr a").all_inner_texts()
        assert names == ["two", "three", "one"]
        assert "experiment" in page.evaluate("document.activeElement.textContent")
        page.get_by_role("link", name="two").focus()
        key = page.locator("a", has_text="two").get_attribute("href")
        page.goto(f"{address}{key}/live")
        page.wait_for_selector("figure.plot[data-drawn=yes]")
        page.evaluate("document.querySelector('figure.plot div').kept = true")
        store = tmp_path / "runs" / "two"
        (store / "ledger.jsonl").touch()
        before = page.inner_text(".facts")
        page.wait_for_function("old => document.querySelector('.facts').innerText !== old", arg=before)
        assert page.evaluate("document.querySelector('figure.plot div').kept") is True


def test_the_site_fits_a_telephone(directory: Path, tmp_path: Path, open_page: Opener) -> None:
    first = write_site(directory, tmp_path / "site")
    for page in (first, next((first.parent / "methods").iterdir())):
        assert open_page(page.as_uri(), width=390).overflow() == 0


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An index of six images, made with a small network, and the directory of the images."""
    root = tmp_path_factory.mktemp("search")
    images, model = fill(root / "images", 6), make_model(root / "model")
    with open_or_create_index(root / "index", model) as store:
        add_images(store, lf.load_embedder(model), images_from_folder(images), threads=1)
        store.finish()
    return root / "index", images


def test_an_image_finds_similar_images_and_a_click_searches_again(
    index: tuple[Path, Path], open_page: Opener
) -> None:
    directory, images = index
    with served("--index", str(directory), "--index", str(directory)) as address:
        page = open_page(address).page
        page.locator("#query-file").set_input_files(images / "class0" / "0003.png")
        page.wait_for_selector("ol.hits li")
        assert page.locator("#answers section").count() == 2, "two models' answers side by side"
        hits = page.locator("#answers section").first.locator("li")
        assert hits.count() == 6
        assert "0003.png" in hits.first.inner_text() and "1.000" in hits.first.inner_text()
        page.wait_for_function("() => document.querySelector('ol.hits img').naturalWidth > 0")
        hits.filter(has_text="0004.png").get_by_role("button").click()
        page.wait_for_function(
            "() => document.querySelector('ol.hits li .name').textContent.includes('0004.png')"
        )
        assert page.evaluate(CONTRAST) == [] and page.evaluate(NAMELESS) == []


def test_a_file_that_is_not_an_image_gets_one_clear_line(
    index: tuple[Path, Path], tmp_path: Path, open_page: Opener
) -> None:
    (tmp_path / "text.png").write_text("<script>alert(1)</script>")
    Image.new("L", (7000, 7000)).save(tmp_path / "huge.png")
    with served("--index", str(index[0])) as address:
        watched = open_page(address)
        page = watched.page
        for name, words in (("text.png", "image"), ("huge.png", "pixels")):
            page.locator("#query-file").set_input_files(tmp_path / name)
            page.wait_for_function(f"() => document.getElementById('status').textContent.includes('{words}')")
        assert page.locator("ol.hits").count() == 0
        watched.problems = [problem for problem in watched.problems if "422" not in problem]  # the refusals
