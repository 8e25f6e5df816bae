"""The whole verification: records, names, report tables, plan and anchor."""

from __future__ import annotations

import csv
import importlib.util
import math
import re
from pathlib import Path

from levelfield.analysis import Comparison, analyze, check_outside, verify, verify_notes
from levelfield.core.files import read_text
from levelfield.records import Store
from levelfield.reports._comparison import pairs_table
from levelfield.reports._results_table import results_latex, results_lines, results_markdown, verdict_json

NUMBER = re.compile(r"(?P<spread>± |\\pm\$ )?(?P<number>\d+(?:\.\d+)?)")

EXACT_COLUMNS = ("first", "second", "verdict", "leaky", "classes", "reruns")
NUMBER_COLUMNS = ("difference", "low", "high")
LAST_DIGITS = 0.02  # of an interval's width: random draws and processors change the last digits of intervals


def verify_experiment(
    root: str | Path, *, plan: str | Path | None = None, anchor: str | Path | None = None
) -> list[str]:
    """Return one sentence for each inconsistency of the records and of the tables in ``report/``.

    Args:
        root: Experiment directory, or an archive of it.
        plan: Plan file to compare with. Defaults to the copy in the directory, if there is one.
        anchor: Anchor file, or the digest of a ledger line, that the ledger must contain.
    """
    problems = verify(root)
    analysis = analyze(root)
    problems += _check_names(analysis.comparison)
    problems += check_outside(root, plan=plan, anchor=anchor)[0]
    expected = {
        "results.csv": results_lines(analysis).csv(),
        "results.md": results_markdown(analysis),
        "results.tex": results_latex(analysis),
        "pairs.csv": pairs_table(analysis).csv(),
    }
    if Store(Path(root)).verdict() is not None:  # one of an earlier state is not used by any reader
        expected["verdict.json"] = verdict_json(analysis)
    for name, text in expected.items():
        file = Store(Path(root)).report_directory / name
        if file.exists() and not _agree(name, read_text(file), text):
            problems.append(
                f"report/{name} differs from the records; write it again with `levelfield report`"
            )
    return problems


def experiment_notes(
    root: str | Path, *, plan: str | Path | None = None, anchor: str | Path | None = None
) -> list[str]:
    """Return sentences that a reader of consistent records should know of; same arguments."""
    notes = [*verify_notes(root), *check_outside(root, plan=plan, anchor=anchor)[1]]
    if not _can_check_names():
        notes.append("the names of methods and metrics were not checked, because torch is not installed")
    return notes


def _can_check_names() -> bool:
    try:
        return importlib.util.find_spec("torch") is not None
    except ModuleNotFoundError:
        return False


def _check_names(comparison: Comparison) -> list[str]:
    """Compare with the cards of methods and metrics; they need torch, which readers may not have."""
    if not _can_check_names():
        return []
    from levelfield.reports._verify_cards import check_cards

    return list(check_cards(comparison))


def _agree(name: str, written: str, expected: str) -> bool:
    """Return True if two tables agree; the last digits of intervals depend on the machine."""
    if name == "pairs.csv":
        return _same_pairs(written, expected)
    if name == "results.csv":
        return _same_lines(written, expected)
    if NUMBER.sub("#", written) != NUMBER.sub("#", expected):
        return False
    pairs = zip(NUMBER.finditer(written), NUMBER.finditer(expected), strict=True)
    return all(_is_close(one, other) for one, other in pairs)


def _is_close(one: re.Match[str], other: re.Match[str]) -> bool:
    """Return True for numbers that differ by one in the last digit; half widths may differ by more."""
    digits = min(len(found["number"].partition(".")[2]) for found in (one, other))
    spread = LAST_DIGITS if one["spread"] else 0.0
    numbers = [float(found["number"]) for found in (one, other)]
    return math.isclose(*numbers, rel_tol=spread, abs_tol=1.01 * 10.0**-digits if digits else 0.0)


def _same_lines(one: str, other: str) -> bool:
    """Return True if two tables of results agree: half widths up to their last digits, all else exactly."""
    tables = [list(csv.DictReader(text.splitlines())) for text in (one, other)]
    return len(tables[0]) == len(tables[1]) and all(
        a.keys() == b.keys() and all(_same_cell(key, a[key], b[key]) for key in a)
        for a, b in zip(*tables, strict=True)
    )


def _same_cell(column: str, one: str, other: str) -> bool:
    numbers = _number(one), _number(other)
    if one == other or None in numbers:
        return one == other
    slack = LAST_DIGITS if "half_width" in column else 1e-9
    return math.isclose(float(one), float(other), rel_tol=slack)


def _same_pairs(one: str, other: str) -> bool:
    """Return True if two tables of pairs agree, up to the last digits of their intervals."""
    tables = [list(csv.DictReader(text.splitlines())) for text in (one, other)]
    return len(tables[0]) == len(tables[1]) and all(map(_same_pair, *tables))


def _same_pair(one: dict[str, str], other: dict[str, str]) -> bool:
    if any(one.get(column) != other.get(column) for column in EXACT_COLUMNS):
        return False
    numbers = [[_number(line.get(column)) for column in NUMBER_COLUMNS] for line in (one, other)]
    (_, low, high), width = numbers[1], 0.0
    if low is not None and high is not None:
        width = abs(high - low)
    slack = (1e-9, LAST_DIGITS * width, LAST_DIGITS * width)
    return all(
        a is b is None
        or (a is not None and b is not None and math.isclose(a, b, rel_tol=1e-6, abs_tol=tolerance))
        for a, b, tolerance in zip(*numbers, slack, strict=True)
    )


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
