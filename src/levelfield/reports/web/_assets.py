"""Texts and addresses of the style sheet and scripts of a server."""

from __future__ import annotations

from functools import cache
from importlib import resources

from levelfield.reports.pages import asset, digest_of

OWN_SCRIPTS = ("live.js", "search.js")


@cache
def asset_text(name: str) -> str:
    """Return the content of a style sheet or script."""
    if name in OWN_SCRIPTS:
        file = resources.files("levelfield.reports.web") / "assets" / name
        return file.read_text(encoding="utf-8")
    return asset(name)


def script_address(name: str) -> str:
    """Return the address of a script of the live pages; it changes with the content."""
    return f"/assets/{name}?v={digest_of(asset_text(name))}"
