"""Helpers of the browser tests: a chromium, pages that record errors and requests, a server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

from tests.helpers.warm import start_levelfield

NO_BROWSER = (
    "no chromium: `apt-get install chromium` (Debian), or set LEVELFIELD_CHROMIUM to the path of one; "
    "the pages are not tested in a browser without it"
)


def chromium() -> str | None:
    """Return the path of the browser: LEVELFIELD_CHROMIUM, or one of the usual names."""
    names = (os.environ.get("LEVELFIELD_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    return next((found for name in names if name and (found := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """Open a browser; the test is skipped if there is none."""
    program = chromium()
    if program is None:
        pytest.skip(NO_BROWSER)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()


class Watched:
    """Page that records its errors and requests."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", self._on_dialog)

    def _on_console(self, message: object) -> None:
        if getattr(message, "type", "") == "error":
            self.problems.append(str(getattr(message, "text", "")))

    def _on_dialog(self, dialog: Dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def check(self) -> None:
        """Assert that no error was logged, no dialog opened, and no request left the machine."""
        assert not self.problems, self.problems
        own = ("file:", "data:", "blob:", "about:", "http://127.0.0.1:", "http://localhost:")
        assert [url for url in self.requests if not url.startswith(own)] == []

    def overflow(self) -> int:
        """Return the number of pixels that the page is wider than the window."""
        return int(
            self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        )

    def violations(self) -> list[str]:
        """Return what axe-core finds on the page, as one line for each element."""
        # Without preloading: it would read the style sheet by a request, which the page forbids.
        found = Axe().run(self.page, options={"preload": False}).response["violations"]
        return [f"{rule['id']}: {node['html'][:120]}" for rule in found for node in rule["nodes"]]

    def open_sections(self) -> None:
        """Open all folded sections of the page."""
        self.page.evaluate(
            "document.querySelectorAll('details.section').forEach((part) => { part.open = true; })"
        )

    def draw_all(self) -> int:
        """Open all sections and scroll until all visible charts are drawn; return their number."""
        self.open_sections()
        plots = self.page.locator("figure.plot:visible")
        for number in range(plots.count()):
            plots.nth(number).scroll_into_view_if_needed()
            self.page.wait_for_function(
                "n => [...document.querySelectorAll('figure.plot')].filter(f => f.checkVisibility())[n]"
                ".dataset.drawn === 'yes'",
                arg=number,
            )
        return plots.count()


# Contrast as WCAG 2 defines it: every visible text against the first solid color behind it.
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
    let behind = element, color;
    for (;;) {
      color = parse(getComputedStyle(behind).backgroundColor);
      if (color.length === 3 || color[3] === 1 || !behind.parentElement) break;
      behind = behind.parentElement;
    }
    const [one, two] = [light(parse(getComputedStyle(element).color)), light(color)].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (two + 0.05);
    if (ratio < 4.5) bad.push(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return bad;
}
"""

# Every control has an accessible name, every image has an alt text, every column head has a scope.
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
    """Run ``levelfield serve`` with these arguments on a free port; yield its address."""
    reader, writer = os.pipe()
    process = start_levelfield(["serve", *arguments, "--port", "0"], stdout=writer, cwd=cwd)
    os.close(writer)
    with os.fdopen(reader) as stdout:
        try:
            address = stdout.readline().strip()
            assert address.startswith("http://"), "the server did not start"
            yield address.rstrip("/")
        finally:
            process.terminate()
            assert process.wait(timeout=120) is not None, "the server did not end"
