"""Fetching published weights; the libraries keep what they fetched."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlparse
from urllib.request import getproxies

import torch

from levelfield.models._trunk import StateDict


def fetch(url: str) -> StateDict:
    """The state dict behind ``url``; torch.hub checks it against the hash that its name carries."""
    state: StateDict = torch.hub.load_state_dict_from_url(
        url, map_location="cpu", check_hash=True, weights_only=True, progress=sys.stderr.isatty()
    )
    return state


@contextmanager
def no_vain_retries() -> Iterator[None]:
    """Without a network, let the Hugging Face library look in its cache at once, not after a minute."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not _can_be_reached(urlparse(constants.ENDPOINT).hostname or "")
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _can_be_reached(host: str) -> bool:
    if getproxies():
        return True  # the proxy looks names up
    try:
        return bool(socket.getaddrinfo(host, 443))
    except OSError:
        return False
