"""Seals: the hash of every test score, noted in the ledger when it was computed. An edited score shows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from levelfield import files
from levelfield.errors import RunError
from levelfield.records._digest import digest
from levelfield.records._gallery import LOOK
from levelfield.records._models import PICTURES, LedgerLine


@contextmanager
def open_arrays(file: Path) -> Iterator[Any]:
    """The arrays of a rerun; a damaged file is an error that names it and the remedy."""
    try:
        with safe_open(file, framework="numpy") as tensors:
            yield tensors
    except (SafetensorError, OSError) as error:
        raise RunError(
            f"{file} is damaged ({error}); delete it and the .json file of the same name, "
            "then give the same `levelfield run` command again"
        ) from error


def seal_of(file: Path) -> str:
    """The hash of a rerun's scores, or of its values per query; not of what is only there to look at."""
    if file.suffix == ".json":
        return digest(files.read_json(file))
    found = hashlib.sha256()
    with open_arrays(file) as tensors:
        for key in sorted(key for key in tensors.keys() if not key.startswith(LOOK)):  # noqa: SIM118
            values = np.ascontiguousarray(tensors.get_tensor(key))
            found.update(f"{key} {values.dtype.str} {values.shape}\n".encode() + values.tobytes())
    return found.hexdigest()[:16]


def seals(lines: Iterable[LedgerLine]) -> tuple[dict[str, str], list[str]]:
    """What the ledger sealed, by file in ``confirmations``; and which scores wait for a seal.

    Example:
        >>> common = {"time": "t", "host": "h", "commit": None, "method": "m"}
        >>> opened = LedgerLine(selection="s", event="opened", reruns=(0, 1), **common)
        >>> sealed = LedgerLine(selection="", event="sealed", sealed={"s/rerun-00.json": "f"}, **common)
        >>> seals([opened, sealed])
        ({'s/rerun-00.json': 'f'}, ['s/rerun-01.json'])
    """
    sealed: dict[str, str] = {}
    waiting: dict[str, None] = {}
    for line in lines:
        if line.event != PICTURES:
            for name in (f"{line.selection}/rerun-{rerun:02d}.json" for rerun in line.reruns):
                waiting[name] = None
                for file in (name, name.replace(".json", ".safetensors")):
                    sealed.pop(file, None)
        for name, value in line.sealed.items():
            sealed[name] = value
            waiting.pop(name, None)
    return sealed, list(waiting)
