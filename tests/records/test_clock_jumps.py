"""A clock that jumps by years while an experiment runs: same records, and nothing is left to do."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from tests.conftest import tiny_values
from tests.helpers.records_snapshot import differences, records_of

import levelfield as lf
from levelfield.records import Store, _provenance
from levelfield.reports import verify_experiment

pytestmark = pytest.mark.slow  # an experiment, end to end


@pytest.mark.parametrize("years", [40, -40])
def test_a_jumping_clock_changes_no_record(
    years: int, finished_tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, times = random.Random(years), []

    class JumpingClock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]  # typeshed: Self
            jumps = timedelta(days=365 * chance.choice([0, years]), seconds=chance.uniform(-1e5, 1e5))
            times.append(datetime.now(tz) + jumps)
            return times[-1]

    monkeypatch.setattr(_provenance, "datetime", JumpingClock)
    out = tmp_path / "jumping"
    lf.run(tiny_values(), out)
    assert max(times) - min(times) > timedelta(days=365 * 39)  # it did jump
    plain = finished_tiny()
    one, other = records_of(plain), records_of(out)
    # the ledger also depends on other experiments that opened the test set, so its events are compared
    assert [name for name in differences(one, other) if name != "ledger.jsonl"] == []
    events = [[line.event for line in Store(root).ledger()] for root in (plain, out)]
    assert events[0] == events[1]
    before = {file: file.stat().st_mtime_ns for file in out.glob("runs/*/result.json")}
    lines = len(Store(out).ledger())
    lf.run(tiny_values(), out)
    assert {file: file.stat().st_mtime_ns for file in out.glob("runs/*/result.json")} == before
    assert len(Store(out).ledger()) == lines
    problems = verify_experiment(out)
    assert all("days" in line or "hours" in line for line in problems), problems  # times only
