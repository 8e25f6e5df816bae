"""Every record of an experiment's folder, to compare two folders byte by byte.

What says when and where something was computed, and nothing else, is left out: that is provenance.
"""

from __future__ import annotations

import json
from pathlib import Path

LEFT_OUT = ("provenance.json", ".lock", "ledger.head.json")  # the head is a hash of lines with times
TIMES = ("time", "host", "commit", "previous")  # of a line; the last is the hash of a line with a time


def records_of(out: Path) -> dict[str, bytes]:
    """The content of each record by its path in the folder ``out``."""
    found = {}
    for file in sorted(out.rglob("*")):
        name = str(file.relative_to(out))
        if not file.is_file() or file.name in LEFT_OUT:
            continue
        if name.startswith("report/") and not file.name.startswith("results."):
            continue  # pages show times
        found[name] = file.read_bytes()
        if file.name in ("ledger.jsonl", "revisions.jsonl"):
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            kept = [{key: line[key] for key in sorted(line) if key not in TIMES} for line in lines]
            found[name] = json.dumps(kept).encode()
    return found


def differences(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """The names of records that only one has, or that differ."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
