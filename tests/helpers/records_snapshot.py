"""Snapshot of the records of an experiment directory, to compare two directories byte by byte.

Provenance (time and machine) is left out.
"""

from __future__ import annotations

import json
from pathlib import Path

LEFT_OUT = (
    "provenance.json",
    ".lock",
    "local.json",
    "ledger.head.json",
)  # the head is a digest of lines with times
# of a line; `previous` is the digest of a line with a time, `note` names earlier openings on the computer
TIMES = ("time", "host", "commit", "previous", "note")


def records_of(out: Path) -> dict[str, bytes]:
    """Return the content of each record by its path in the directory ``out``."""
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
            for line in kept:  # the digest of a revision covers its time
                sealed = line.get("sealed") or {}
                line["sealed"] = {name: sealed[name] for name in sealed if not name.startswith("revisions/")}
            found[name] = json.dumps(kept).encode()
    return found


def differences(one: dict[str, bytes], other: dict[str, bytes]) -> list[str]:
    """Return the names of records that differ or that only one snapshot has."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
