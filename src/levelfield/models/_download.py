"""Download of published weights, cached by torch.hub."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import torch

from levelfield.core.errors import RunError
from levelfield.core.files import sha256_of_file
from levelfield.models._trunk import StateDict


def download_state(url: str, *, sha256: str = "") -> StateDict:
    """Return the state dict at ``url``, from the cache of torch.hub or from the web.

    Args:
        url: Address. Over plain http anybody on the way can replace the file, so it needs ``sha256``.
        sha256: Digest of the whole file, compared before the file is read, also if it is in the cache.
            Without it, torch.hub checks the short hash in the file's name, over https.
    """
    if sha256:
        return _load_verified(url, sha256)
    if not url.startswith(("https://", "file://")):
        raise RunError(f"{url} is not loaded: plain http needs the checksum of the file; use a local file")
    state: StateDict = torch.hub.load_state_dict_from_url(
        url, map_location="cpu", check_hash=True, weights_only=True, progress=sys.stderr.isatty()
    )
    return state


def _load_verified(url: str, sha256: str) -> StateDict:
    file = Path(torch.hub.get_dir()) / "checkpoints" / PurePosixPath(urlsplit(url).path).name
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        # It compares the digests before it moves the file to its place.
        torch.hub.download_url_to_file(url, str(file), sha256, progress=sys.stderr.isatty())
    if (found := sha256_of_file(file)) != sha256:
        raise RunError(f"{file} has SHA-256 {found}, not {sha256}: it is not the published file; delete it")
    state: StateDict = torch.load(file, map_location="cpu", weights_only=True)
    return state
