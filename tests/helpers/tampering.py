"""Manual edits of the records of an experiment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def edit(file: Path, change: Callable[[Any], None]) -> None:
    """Change the content of a JSON file."""
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def ledger_lines(directory: Path) -> list[str]:
    return (directory / "ledger.jsonl").read_text().splitlines()


def selection_of(directory: Path, method: str) -> Path:
    return next((directory / "selections").glob(f"{method}-*.json"))


def rerun_of(directory: Path, method: str) -> Path:
    name = selection_of(directory, method).stem.rpartition("-")[2]
    return directory / "confirmations" / name / "rerun-00.json"
