"""The report as a reader sees it: whole, quiet, readable, and safe whatever the names are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError
from tests.helpers.made_gallery import add_gallery
from tests.helpers.web_pages import CONTRAST, NAMELESS, Watched

from levelfield.records import Store
from levelfield.reports import write_report

Writer = Callable[..., Path]
Opener = Callable[..., Watched]
SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>"
HOSTILE = f"{SCRIPT}\"'&amp;{{{{7*7}}}}"


@pytest.fixture
def report(write_experiment: Writer) -> Path:
    root = write_experiment()
    add_gallery(root)
    return write_report(root)


def test_everything_is_drawn_and_nothing_is_asked_for(report: Path, open_page: Opener) -> None:
    watched = open_page(report.as_uri())
    assert watched.draw_all() >= 4
    assert watched.page.locator(".js-plotly-plot .main-svg").count() >= 5
    assert watched.requests[0].startswith("file:")
    assert {url.split(":")[0] for url in watched.requests} <= {"file", "data", "blob"}


def test_a_report_with_its_assets_beside_it_is_the_same(write_experiment: Writer, open_page: Opener) -> None:
    watched = open_page(write_report(write_experiment(), assets=True).as_uri())
    assert watched.draw_all() >= 3


def test_a_column_is_sorted_by_a_click_and_by_the_keyboard(report: Path, open_page: Opener) -> None:
    page = open_page(report.as_uri()).page
    table = page.locator("table.sortable").first
    head = table.locator("thead tr").last.locator("th").nth(3)

    def column() -> list[float]:
        cells = table.locator("tbody tr td:nth-child(4)").all_text_contents()
        return [float(text.split()[0]) for text in cells]

    head.locator("button").click()
    assert column() == sorted(column(), reverse=True) and head.get_attribute("aria-sort") == "descending"
    head.locator("button").focus()
    page.keyboard.press("Enter")
    assert column() == sorted(column()) and head.get_attribute("aria-sort") == "ascending"


def test_the_gallery_shows_right_and_wrong_and_can_be_narrowed(report: Path, open_page: Opener) -> None:
    page = open_page(report.as_uri()).page
    gallery = page.locator(".gallery")
    gallery.scroll_into_view_if_needed()
    assert gallery.locator(".query").count() == 3
    assert gallery.locator(".tile.right").count() == gallery.locator(".tile.wrong").count() == 3 * 4
    wrong = gallery.locator(".tile.wrong img").first
    assert (wrong.get_attribute("alt") or "").startswith("wrong: class 1, similarity 0.5")
    page.wait_for_function("() => document.querySelector('.gallery .tile.large img').naturalWidth === 16")
    gallery.locator("select").first.select_option("differs")
    assert gallery.locator(".query").count() == 1
    gallery.locator("select").last.select_option("triplet")
    assert gallery.locator(".answers > span").all_text_contents() == ["triplet"]


def test_a_point_of_the_map_shows_its_image(report: Path, open_page: Opener) -> None:
    watched = open_page(report.as_uri())
    page = watched.page
    watched.open_sections()
    figure = page.locator("#map + .card figure.plot")
    figure.scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('#map + .card figure.plot').dataset.drawn === 'yes'")
    image = page.locator(".hover-image")
    for _ in range(100):  # the page may still move under the mouse while charts above are drawn
        point = figure.locator(".scatterlayer .point").first.bounding_box()
        assert point is not None
        page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
        try:
            image.wait_for(state="visible", timeout=100)
            break
        except PlaywrightTimeoutError:
            page.mouse.move(0, 0)
    assert "class" in image.inner_text()
    page.wait_for_function("() => document.querySelector('.hover-image img').naturalWidth === 16")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_and_controls_have_names(report: Path, open_page: Opener, scheme: str) -> None:
    page = open_page(report.as_uri(), color_scheme=scheme).page
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(NAMELESS) == []
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (light == "rgb(245, 248, 251)") == (scheme == "light")


def test_a_telephone_can_show_it(report: Path, open_page: Opener) -> None:
    watched = open_page(report.as_uri(), width=390)
    watched.draw_all()
    assert watched.overflow() == 0


def test_dots_are_printed(report: Path, open_page: Opener) -> None:
    """Browsers leave backgrounds out of a print unless the page asks for them, and dots are backgrounds."""
    page = open_page(report.as_uri()).page
    page.emulate_media(media="print")
    style = "each => each.map((one) => getComputedStyle(one).printColorAdjust)"
    assert set(page.locator(".track i, .track b").evaluate_all(style)) == {"exact"}


def test_focus_can_be_seen_and_the_content_be_skipped_to(report: Path, open_page: Opener) -> None:
    page = open_page(report.as_uri()).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Tab")
    style: Any = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"


def test_hostile_names_do_no_harm(write_experiment: Writer, open_page: Opener) -> None:
    """Whatever names, hyperparameters and reasons hold, it is shown as text."""
    root = write_experiment(means={"contrastive": 0.5, "\u05d0\u05d1": 0.4, "untrained": 0.1})
    add_gallery(root, names=SCRIPT + "\u202e{}")
    index = json.loads((root / "experiment.json").read_text())
    for file in root.glob("searches/*/trial-*.json"):
        trial = json.loads(file.read_text())
        trial["hyperparameters"] = {HOSTILE: 0.5, "other": HOSTILE}
        trial["reason"] = SCRIPT if trial["reason"] else ""
        file.write_text(json.dumps(trial))
    index["notes"] = [SCRIPT]
    index["split"] = SCRIPT
    (root / "experiment.json").write_text(json.dumps(index))
    Store(root).experiment_record()
    watched = open_page(write_report(root).as_uri())
    page = watched.page
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    watched.draw_all()
    assert page.locator("main img[src=x], main script:not([type])").count() == 0
    assert SCRIPT in page.inner_text("main") and "{{7*7}}" in page.inner_text("main"), "shown, not run"


def test_many_methods_are_shown_a_few_at_a_time(write_experiment: Writer, open_page: Opener) -> None:
    """The best three, the baseline, and the two that a query sets apart; all of them for who asks."""
    means = {f"m{number:02d}": 0.5 - 0.01 * number for number in range(22)}
    root = write_experiment(means=means | {"untrained": 0.1}, repeats=2, trials=4)
    add_gallery(root)
    watched = open_page(write_report(root).as_uri(), width=390)
    page = watched.page
    assert page.locator(".gallery .query").first.locator(".strip").count() == 4
    page.locator(".gallery select").last.select_option("")
    assert page.locator(".gallery .query").first.locator(".strip").count() == 23
    watched.draw_all()
    assert watched.overflow() == 0
    legends = "[...document.querySelectorAll('g.legend')].map(l => l.querySelectorAll('.traces').length)"
    assert max(page.evaluate(legends)) == 23
    overlaps = page.evaluate("""() => [...document.querySelectorAll('figure.plot')].filter((figure) => {
        const [legend, title] = [figure.querySelector('g.legend'), figure.querySelector('.xtitle')];
        if (!legend || !title || !title.textContent.trim()) return false;
        const [one, other] = [legend.getBoundingClientRect(), title.getBoundingClientRect()];
        return one.top < other.bottom && other.top < one.bottom;
    }).map((figure) => figure.textContent.slice(0, 40))""")
    assert overlaps == []
    assert page.locator(".diagram svg").count() == 1
