"""Seal of a file of scores, from an experiment directory or an archive.

The seal of the values per query covers their class means, which verdicts are computed from. An archive holds
only the class means, so it has the same seals as the original.
"""

from __future__ import annotations

import hashlib

import numpy as np

from levelfield.records._arrays import class_means
from levelfield.records._digest import digest
from levelfield.records._record_files import ARRAYS, RecordFiles, has_pattern, kind_of


def compute_seal(records: RecordFiles, name: str) -> str | None:
    """Return the digest of a rerun's scores (.json) or class means (.safetensors), without gallery arrays.

    Args:
        records: Records of the experiment.
        name: Path of the file in ``confirmations``.

    Returns:
        The digest; None if there is no such record.
    """
    path = f"confirmations/{name}"
    if kind_of(path) == "reruns" and records.exists(path):
        return digest(records.read_json(path))
    if not has_pattern(path, ARRAYS) or not records.exists(path):
        return None
    found = hashlib.sha256()
    with records.open_arrays(path) as opened:
        # not a dictionary
        arrays = class_means({key: opened.get_tensor(key) for key in opened.keys()})  # noqa: SIM118
    for key in sorted(arrays):
        values = np.ascontiguousarray(arrays[key])
        found.update(f"{key} {values.dtype.str} {values.shape}\n".encode() + values.tobytes())
    return found.hexdigest()[:16]
