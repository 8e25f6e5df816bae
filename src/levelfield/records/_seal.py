"""Seals: the hash of every test score, noted in the ledger when it was computed. An edited score shows.

What is sealed of the values per query is their class means, which all verdicts rest on: an archive, which
holds nothing else, has the seals of the original.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from levelfield import files
from levelfield.records._arrays import class_means, open_arrays
from levelfield.records._digest import digest
from levelfield.records._models import PICTURES, LedgerLine


def seal_of(file: Path) -> str:
    """The hash of a rerun's scores, or of its class means; not of what is only there to look at."""
    if file.suffix == ".json":
        return digest(files.read_json(file))
    found = hashlib.sha256()
    with open_arrays(file) as tensors:
        arrays = class_means({key: tensors.get_tensor(key) for key in tensors.keys()})  # noqa: SIM118
        for key in sorted(arrays):
            values = np.ascontiguousarray(arrays[key])
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
