"""A browser for the whole module, pages that are watched, and made experiments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser
from tests.helpers import web_pages
from tests.helpers.made_experiments import write_experiment

__all__ = ["write_experiment"]

Opener = Callable[..., web_pages.Watched]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with web_pages.browser() as opened:
        yield opened


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Opener]:
    """Opens an address in a page of its own; at the end every page is checked for errors and requests."""
    opened: list[web_pages.Watched] = []

    def open_one(address: str, *, width: int = 1280, **options: Any) -> web_pages.Watched:
        page = browser.new_page(viewport={"width": width, "height": 900}, **options)
        page.set_default_timeout(120_000)  # of a busy machine
        watched = web_pages.Watched(page)
        opened.append(watched)
        page.goto(address)
        return watched

    yield open_one
    for watched in opened:
        watched.check()
        watched.page.close()
