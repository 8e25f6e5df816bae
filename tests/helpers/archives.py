"""Edit the records of an archive, with or without a manifest that fits the edit."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def edit_lines(root: Path, kind: str, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    """Change the lines of a kind of record, and make the manifest fit, as a careful cheat would."""
    (file,) = root.glob(f"{kind}.jsonl*")
    packed = file.suffix == ".gz"
    data = gzip.decompress(file.read_bytes()) if packed else file.read_bytes()
    lines = [json.loads(line) for line in data.splitlines()]
    change(lines)
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    file.write_bytes(gzip.compress(text) if packed else text)
    fit_manifest(root, file.name, text, len(lines))


def fit_manifest(root: Path, name: str, content: bytes, records: int) -> None:
    """Make the manifest fit a file."""
    manifest = json.loads((root / "archive.json").read_text())
    manifest["files"][name] = {"records": records, "sha256": hashlib.sha256(content).hexdigest()}
    (root / "archive.json").write_text(json.dumps(manifest))
