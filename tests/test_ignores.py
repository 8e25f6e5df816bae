"""Whoever silences a check says why: on the same line, or in a comment on the line above."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "tools", "benchmarks", "examples", "results/reality_check")
SILENCED = re.compile(r"#\s*(?:noqa\b:?|type: ignore|pragma: no cover)(?:\[[\w, -]*\]|[ A-Z0-9,]*)(.*)$")


def without_reason(lines: list[str]) -> list[int]:
    """Return the numbers of lines that silence a check without a reason."""
    found = []
    for number, line in enumerate(lines, start=1):
        silenced = SILENCED.search(line)
        above = lines[number - 2].strip() if number > 1 else ""
        if silenced and not silenced[1].strip(" -#") and not above.startswith("#"):
            found.append(number)
    return found


def test_every_silenced_check_has_a_reason() -> None:
    found = []
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            lines = file.read_text(encoding="utf-8").splitlines()
            found += [f"{file.relative_to(ROOT)}:{number}" for number in without_reason(lines)]
    assert not found


def test_a_reason_is_found_where_it_may_stand() -> None:
    # The marks are put together here, so that linters do not take these strings for their own.
    noqa, ignore = "# no" + "qa: F401", "# type" + ": ignore[arg-type]"
    assert without_reason([f"import a  {noqa}", f"b(c)  {ignore}"]) == [1, 2]
    assert without_reason([f"import a  {noqa} - a reason", f"b(c)  {ignore}  # a reason"]) == []
    assert without_reason(["# a reason", f"b(c)  {ignore}"]) == []
