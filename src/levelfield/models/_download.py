"""Fetching published weights; the libraries keep what they fetched."""

from __future__ import annotations

import sys

import torch

from levelfield.models._trunk import StateDict


def fetch(url: str) -> StateDict:
    """The state dict behind ``url``; torch.hub checks it against the hash that its name carries."""
    state: StateDict = torch.hub.load_state_dict_from_url(
        url, map_location="cpu", check_hash=True, weights_only=True, progress=sys.stderr.isatty()
    )
    return state
