"""Offline use of the Hugging Face Hub: read the cache immediately instead of retrying for a minute."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlparse
from urllib.request import getproxies, proxy_bypass

CONNECT_SECONDS = 5.0


@contextmanager
def offline_if_unreachable() -> Iterator[None]:
    """Set the Hugging Face libraries to offline mode while the hub cannot be reached.

    They then read their caches immediately and without warnings. The settings are restored at the end.
    """
    from huggingface_hub import constants

    # `datasets` copies the setting when it is imported, so its copy must be changed too
    modules: list[Any] = [constants, *filter(None, [sys.modules.get("datasets.config")])]
    before = [bool(module.HF_HUB_OFFLINE) for module in modules]
    offline = not _is_reachable(constants.ENDPOINT)
    for module, was in zip(modules, before, strict=True):
        module.HF_HUB_OFFLINE = was or offline
    try:
        yield
    finally:
        for module, was in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = was


def _is_reachable(address: str) -> bool:
    """Return True if the server at ``address`` accepts connections, or if a proxy leads to it."""
    parts = urlparse(address)
    host, port = parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)
    if getproxies() and not proxy_bypass(host):
        return True  # the proxy resolves host names
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError:
        return False
    return True
