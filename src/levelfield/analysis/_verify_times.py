"""Check of times: the chain of the ledger gives the order; times must not contradict it by far.

A clock that was set back by a little is a note. By more, it cannot be told from a line that was dated back,
so it is a problem.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from levelfield.analysis._results import Comparison, Repeat
from levelfield.records import LedgerLine, Store

CLOCK_SLACK = timedelta(days=1)  # between two lines of the ledger
RUN_SLACK = timedelta(hours=1)  # between the end of a run and the opening for it


def check_times(store: Store, comparison: Comparison) -> tuple[list[str], list[str]]:
    """Return problems and notes about the times of the ledger."""
    problems, notes = _check_order(comparison)
    for result in comparison.results:
        for repeat in result.repeats:
            lines = [line for line in comparison.ledger if line.selection == repeat.confirmation]
            for name, early, line in _find_early(store, repeat, lines):
                sentence = (
                    f"the test set was opened for {result.method} at {line.time}, {_words(early)} before "
                    f"{name} ended: the line was dated back, a clock was wrong, or the run was trained again"
                )
                (problems if early > RUN_SLACK else notes).append(sentence)
    return problems, notes


def _check_order(comparison: Comparison) -> tuple[list[str], list[str]]:
    """Compare each line with the latest one before it, and the first line with the first revision."""
    problems: list[str] = []
    notes: list[str] = []
    latest = _time(comparison.revisions[0].time) if comparison.revisions else None
    before = "the first revision of the experiment"
    for number, line in enumerate(comparison.ledger, 1):
        time = _time(line.time)
        if time is None:
            problems.append(f"ledger line {number} has no valid time: {line.time}")
            continue
        if latest is not None and time < latest:
            back = latest - time
            sentence = f"ledger line {number} is dated {_words(back)} before {before}: a clock was set back"
            if back > CLOCK_SLACK:
                problems.append(f"{sentence}, or the line was dated back")
            else:
                notes.append(sentence)
        else:
            latest, before = time, f"line {number}"
    return problems, notes


def _find_early(
    store: Store, repeat: Repeat, lines: list[LedgerLine]
) -> list[tuple[str, timedelta, LedgerLine]]:
    """Return each group of runs that ended after the opening for it: name, time after, opening."""
    found = []
    groups: list[tuple[str, tuple[str, ...], LedgerLine]] = []
    if lines and repeat.selection.trial is not None and repeat.selection.trial < len(repeat.trials):
        groups.append(("the selected trial", repeat.trials[repeat.selection.trial].runs, lines[0]))
    for number, rerun in repeat.reruns.items():
        opening = next((line for line in lines if number in line.reruns), None)
        if opening is not None:
            groups.append((f"rerun {number + 1}", rerun.runs, opening))
    for name, runs, line in groups:
        records = [store.run(run).provenance() for run in runs]
        ends = [end for record in records if record and (end := _time(record.finished)) is not None]
        opened = _time(line.time)
        if ends and opened is not None and max(ends) > opened:
            found.append((name, max(ends) - opened, line))
    return found


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _words(span: timedelta) -> str:
    """Return a span of time in words.

    Example:
        >>> _words(timedelta(hours=30)), _words(timedelta(seconds=61))
        ('1 day', '1 minute')
    """
    for name, seconds in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        count = int(span.total_seconds() // seconds)
        if count:
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "less than a second"
