"""Images of the pages for README and documentation: ``python -m tools.docs.screenshots SITE EXPERIMENT``.

SITE is the directory that ``levelfield site results -o SITE`` wrote, EXPERIMENT a finished experiment. The
pages are opened in chromium at 1280 pixels. Images have 256 colors.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright
from tests.helpers.web_pages import chromium, served

IMAGES = Path(__file__).parents[2] / "docs" / "images"
HEIGHTS = {"report.png": 1250, "leaderboard.png": 900, "live.png": 900, "gallery.png": 0}
UNSTICK = """() => document.querySelectorAll('body *').forEach((each) => {
    if (getComputedStyle(each).position === 'sticky') each.style.position = 'static';
})"""


def main() -> None:
    """Open each page and write its image to ``docs/images``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("experiment", type=Path)
    chosen = parser.parse_args()
    with sync_playwright() as playwright, served(str(chosen.experiment)) as address:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto((chosen.site / "index.html").resolve().as_uri())
        _write(page, "leaderboard.png")
        page.goto(address)
        page.locator("table.experiments a").first.click()
        page.wait_for_selector("#trust", state="attached")
        _wait_for_charts(page)
        _write(page, "report.png")
        gallery = page.locator(".gallery")
        if gallery.count():
            gallery.scroll_into_view_if_needed()
            page.wait_for_function("() => document.querySelector('.gallery img').naturalWidth > 0")
            page.evaluate(UNSTICK)  # the bar at the top would lie over the image
            _save(gallery.screenshot(), "gallery.png")
        page.goto(page.url.replace("/report", "/live"))
        _wait_for_charts(page)
        _write(page, "live.png")
        browser.close()


def _wait_for_charts(page: Page) -> None:
    page.wait_for_function(
        "() => [...document.querySelectorAll('figure.plot')].filter((each) => each.checkVisibility()"
        " && each.getBoundingClientRect().top < innerHeight).every((each) => each.dataset.drawn === 'yes')"
    )


def _write(page: Page, name: str) -> None:
    clip = {"x": 0, "y": 0, "width": 1280, "height": HEIGHTS[name]}
    _save(page.screenshot(full_page=True, clip=clip), name)  # type: ignore[arg-type]  # a TypedDict


def _save(data: bytes, name: str) -> None:
    Image.open(io.BytesIO(data)).convert("RGB").quantize(256).save(IMAGES / name, optimize=True)
    print(IMAGES / name)


if __name__ == "__main__":
    main()
