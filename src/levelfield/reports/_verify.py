"""Whether what was published of an experiment is what its records say."""

from __future__ import annotations

from pathlib import Path

from levelfield.compare import collect, verify
from levelfield.records import Store
from levelfield.reports._results_table import results_lines


def verify_folder(root: str | Path) -> list[str]:
    """Every finding about the records and the tables beside them, in one sentence each."""
    findings = verify(root)
    file = Store(Path(root)).report_folder / "results.csv"
    if file.exists() and file.read_text(encoding="utf-8") != results_lines(collect(root)).csv():
        findings.append(
            "report/results.csv is not what the records give; `levelfield report` writes it again"
        )
    return findings
