"""A report quotes the rate of false alarms in records like its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from levelfield.analysis import analyze
from levelfield.core.files import read_json
from levelfield.reports import quote_alarm_rate, render_report


@pytest.mark.slow
def test_the_rate_is_simulated_once_and_quoted_on_the_page(write_experiment: Callable[..., Path]) -> None:
    root = write_experiment(means={"contrastive": 0.26, "triplet": 0.24, "arcface": 0.25})
    analysis = analyze(root)
    assert quote_alarm_rate(analysis) is None, "nothing is simulated unless asked for"
    rate = quote_alarm_rate(analysis, simulations=10)
    assert rate is not None and rate.simulations == 10
    file = root / "report" / "false-alarms.json"
    before = file.stat().st_mtime_ns
    assert quote_alarm_rate(analysis, simulations=10) == rate == quote_alarm_rate(analysis)
    assert file.stat().st_mtime_ns == before and read_json(file)["rate"]["simulations"] == 10
    assert "In 10 simulated records like this one" in render_report(analysis)
