"""The search page in a browser: examples, controls, no match, narrow windows, dark colors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.helpers.web_pages import CONTRAST, NAMELESS, Watched, browser, served
from tests.retrieval.index.conftest import draw, make_model

import levelfield as lf
from levelfield.retrieval.index import add_images, images_from_folder, open_or_create_index

pytestmark = pytest.mark.slow
expect.set_options(timeout=120_000)  # of a busy machine
LABELS = ("Black_throated_Blue_Warbler", "Rhinocerosauklet-Pterodroma-phaeopygia", "Elster")

# Words of labels and names that are on more than one line.
BROKEN = """
() => {
  const bad = [];
  for (const text of document.querySelectorAll("ol.hits b, ol.hits .name")) {
    for (const node of text.childNodes) {
      if (node.nodeType !== 3 || !node.data) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
      if (lines.size > 1) bad.push(node.data);
    }
  }
  return bad;
}
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    root = tmp_path_factory.mktemp("page")
    model = make_model(root / "model")
    for number in range(12):
        folder = root / "images" / LABELS[number % 3]
        folder.mkdir(parents=True, exist_ok=True)
        draw(number).save(folder / f"{number:04d}_{LABELS[number % 3]}.png")
    with open_or_create_index(root / "index", model) as store:
        add_images(store, lf.load_embedder(model), images_from_folder(root / "images"), threads=1)
        store.finish()
    with served("--index", str(root / "index")) as address:
        yield address


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_person_can_search(address: str, width: int, scheme: str, tmp_path: Path) -> None:
    draw(3).save(tmp_path / "query.png")
    with browser() as opened:
        page = opened.new_page(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        page.set_default_timeout(120_000)
        watched = Watched(page)
        page.goto(f"{address}/search")
        assert "12 images" in page.inner_text("main") and "model 0" in page.inner_text("main")
        assert page.locator("#examples img").count() == 6 and watched.overflow() == 0
        page.locator("#examples button").first.click()
        hits = page.locator("ol.hits li")
        expect(hits).to_have_count(12)
        assert page.locator("#examples").count() == 0 and watched.overflow() == 0
        assert page.evaluate(BROKEN) == [] and page.evaluate(CONTRAST) == [] and page.evaluate(NAMELESS) == []
        page.fill("#search-k", "2")
        page.select_option("#search-rerank", "k_reciprocal")
        page.fill("#search-filter", "label=Elster")
        page.set_input_files("#query-file", tmp_path / "query.png")
        expect(hits).to_have_count(2)
        expect(hits.filter(has_text="Elster")).to_have_count(2)
        expect(page.locator("#answers")).to_contain_text("k_reciprocal")
        assert "/tmp" not in page.content()
        page.fill("#search-least", "1")
        page.fill("#search-filter", "label=Elster; label!=Elster")
        page.click("#search-controls button")
        expect(page.locator(".nothing")).to_contain_text("Nothing like it here")
        assert watched.overflow() == 0
        assert page.evaluate(CONTRAST) == []
        page.fill("#search-filter", "nothing=1")
        page.click("#search-controls button")
        expect(page.locator("#status")).to_contain_text("nothing")
        watched.problems = [each for each in watched.problems if "422" not in each]  # the refused request
        watched.check()
