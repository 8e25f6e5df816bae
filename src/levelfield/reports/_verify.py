"""Whether what was published of an experiment is what its records say."""

from __future__ import annotations

import csv
from pathlib import Path

from levelfield.compare import verify, weigh
from levelfield.records import Store
from levelfield.reports._comparison import pairs_table
from levelfield.reports._results_table import results_lines, results_markdown, results_table


def verify_folder(root: str | Path) -> list[str]:
    """Every finding about the records and the tables beside them, in one sentence each."""
    findings = verify(root)
    evidence = weigh(root)
    comparison = evidence.comparison
    expected = {
        "results.csv": results_lines(comparison).csv(),
        "results.md": results_markdown(comparison, evidence.leaders),
        "results.tex": results_table(comparison, evidence.leaders).latex(),
        "pairs.csv": pairs_table(evidence).csv(),
    }
    for name, text in expected.items():
        file = Store(Path(root)).report_folder / name
        stated = _verdicts if name == "pairs.csv" else str
        if file.exists() and stated(file.read_text(encoding="utf-8")) != stated(text):
            findings.append(
                f"report/{name} is not what the records give; `levelfield report` writes it again"
            )
    return findings


def _verdicts(text: str) -> list[tuple[str | None, ...]]:
    """What a table of pairs says; the last digits of its intervals depend on the machine that wrote them."""
    said = ("first", "second", "verdict", "leaky")
    return [tuple(line.get(column) for column in said) for line in csv.DictReader(text.splitlines())]
