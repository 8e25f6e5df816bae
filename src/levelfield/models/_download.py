"""Fetch a weights file once; torch.hub keeps it and checks the hash that its name carries."""

from __future__ import annotations

import sys

import torch

from levelfield.models._trunk import StateDict


def fetch(url: str) -> StateDict:
    """The state dict behind ``url``; OSError if it cannot be had."""
    state: StateDict = torch.hub.load_state_dict_from_url(
        url, map_location="cpu", check_hash=True, weights_only=True, progress=sys.stderr.isatty()
    )
    return state
