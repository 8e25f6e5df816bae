"""What a cheat does to the records of an experiment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def edit(file: Path, change: Callable[[Any], None]) -> None:
    """Change what a JSON file holds."""
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def ledger_lines(folder: Path) -> list[str]:
    return (folder / "ledger.jsonl").read_text().splitlines()


def selection_of(folder: Path, method: str) -> Path:
    return next((folder / "selections").glob(f"{method}-*.json"))


def rerun_of(folder: Path, method: str) -> Path:
    name = selection_of(folder, method).stem.rpartition("-")[2]
    return folder / "confirmations" / name / "rerun-00.json"
