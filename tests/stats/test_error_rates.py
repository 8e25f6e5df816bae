"""The published error rates: enough simulations, within the targets, and the same in docs and README."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "benchmarks" / "statistics"
FITTED = ("fitted to CUB", "fitted to Cars196")
WORST = "20% bad, 8 own deviations"  # the documented exception: the aim is 8%


@pytest.fixture(scope="module")
def null() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads((SCRIPTS / "error_rates.json").read_text())["null"]
    return found


def percent(cell: dict[str, Any], what: str) -> float:
    return 100 * float(cell[what]) / float(cell["sims"])


def test_the_rates_are_within_the_targets(null: dict[str, dict[str, Any]]) -> None:
    assert len(null) >= 48
    for world, cell in null.items():
        assert cell["sims"] >= 1000, world
        most = 6.0 if world in FITTED else 8.5 if world == WORST else 8.0
        assert percent(cell, "alarms") <= most, world
        assert percent(cell, "best_covered") >= 94.0, world


def test_the_readme_says_how_sure(null: dict[str, dict[str, Any]]) -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    (fitted,) = {round(percent(null[world], "alarms")) for world in FITTED}
    worst = round(max(percent(cell, "alarms") for cell in null.values()))
    assert f"{fitted}% have a false alarm; {worst}% if a fifth of the searches go badly" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["error_rates.py", "--before", str(SCRIPTS / "error_rates_before.json")],
        ["pooled_rates.py"],
        ["other_worlds.py"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_tables_of_the_docs_are_those_that_the_command_prints(arguments: list[str]) -> None:
    script, *options = arguments
    command = [sys.executable, str(SCRIPTS / script), "--table", *options]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line for line in printed.splitlines() if line.startswith("|")]
    lines = set((ROOT / "docs" / "statistics.md").read_text().splitlines())
    assert len(rows) > 20 and [row for row in rows if row not in lines] == []
