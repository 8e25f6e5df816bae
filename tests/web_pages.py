"""What the browser's tests lean on: a chromium, pages that are watched, a server of one's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

HOW = (
    "no chromium: `apt-get install chromium` (Debian), or set LEVELFIELD_CHROMIUM to the path of one; "
    "the pages are not tested in a browser without it"
)


def chromium() -> str | None:
    """The browser: LEVELFIELD_CHROMIUM, or one of the usual names."""
    names = (os.environ.get("LEVELFIELD_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser; the test is skipped, and says how to get one, where there is none."""
    program = chromium()
    if program is None:
        pytest.skip(HOW)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()


class Watched:
    """A page with all that went wrong in it, and all that it asked others for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on(
            "dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss())
        )

    def _said(self, message: object) -> None:
        if getattr(message, "type", "") == "error":
            self.problems.append(str(getattr(message, "text", "")))

    def check(self) -> None:
        """No error was logged, no dialog opened, and no request left the machine."""
        assert self.problems == []
        own = ("file:", "data:", "blob:", "about:", "http://127.0.0.1:", "http://localhost:")
        assert [url for url in self.requests if not url.startswith(own)] == []

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(
            self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        )

    def draw_all(self) -> int:
        """Scroll through the page until every chart that can be seen is drawn; how many there are."""
        plots = self.page.locator("figure.plot:visible")
        for number in range(plots.count()):
            plots.nth(number).scroll_into_view_if_needed()
            self.page.wait_for_function(
                "n => [...document.querySelectorAll('figure.plot')].filter(f => f.checkVisibility())[n]"
                ".dataset.drawn === 'yes'",
                arg=number,
            )
        return plots.count()


# Contrast as WCAG 2 defines it: every text that can be seen against the first solid colour behind it.
CONTRAST = """
() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => {
    const f = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
    return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b);
  };
  const bad = [];
  for (const element of document.querySelectorAll("main *, nav *")) {
    if (element.closest("figure, svg, .tile") || !element.checkVisibility()) continue;
    const text = [...element.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
    if (!text) continue;
    let behind = element, colour;
    for (;;) {
      colour = parse(getComputedStyle(behind).backgroundColor);
      if (colour.length === 3 || colour[3] === 1 || !behind.parentElement) break;
      behind = behind.parentElement;
    }
    const [one, two] = [light(parse(getComputedStyle(element).color)), light(colour)].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (two + 0.05);
    if (ratio < 4.5) bad.push(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return bad;
}
"""

# Every control has a name that a screen reader can say; every picture has a text; headings skip no level.
NAMELESS = """
() => {
  const bad = [];
  for (const control of document.querySelectorAll("input:not([type=hidden]), select, button, a, progress")) {
    const words = control.getAttribute("aria-label") || control.textContent.trim() || control.title
      || [...(control.labels || [])].map((label) => label.textContent.trim()).join("");
    if (!words) bad.push(control.outerHTML.slice(0, 80));
  }
  document.querySelectorAll("img:not([alt])").forEach((image) => bad.push(image.outerHTML.slice(0, 80)));
  if (document.querySelectorAll("h1").length !== 1) bad.push("not one h1");
  if (document.documentElement.lang !== "en") bad.push("no language");
  document.querySelectorAll("table thead th").forEach((head) => {
    if (head.getAttribute("scope") !== "col" && head.colSpan === 1) bad.push(head.outerHTML.slice(0, 80));
  });
  return bad;
}
"""


@contextmanager
def served(*arguments: str, cwd: Path | None = None) -> Iterator[str]:
    """``levelfield serve`` with these arguments on a free port; its address."""
    command = [sys.executable, "-m", "levelfield", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=cwd)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://"), "the server did not start"
        yield address.rstrip("/")
    finally:
        process.terminate()
        process.wait(timeout=120)
