"""Rate of false alarms in simulated records like an experiment's own, kept beside its report."""

from __future__ import annotations

from dataclasses import asdict

from levelfield.analysis import Analysis, build_score_table
from levelfield.core.files import read_json, write_json
from levelfield.records import Store
from levelfield.stats import AlarmRate, alarm_rate, fit_world

FILE = "false-alarms.json"


def quote_alarm_rate(analysis: Analysis, *, simulations: int = 0) -> AlarmRate | None:
    """Return the rate of false alarms in records like this one; None if it is not known.

    The rate is read from the report directory if it was computed for the same scores.

    Args:
        analysis: Analysis of the experiment.
        simulations: Number of records to simulate if the rate is not on file; 0 simulates none.
    """
    table = build_score_table(analysis.confirmations, analysis.setting, analysis.metric_info)
    if table is None or (~table.fixed).sum() < 2 or table.counts[~table.fixed].max() < 2:
        return None
    world = asdict(fit_world(table))
    key = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in world.items()}
    file = Store(analysis.root).report_directory / FILE
    if file.exists():
        found = read_json(file)
        if found.get("world") == key and found["rate"]["simulations"] >= simulations:
            return AlarmRate(**found["rate"])
    if not simulations:
        return None
    rate = alarm_rate(fit_world(table), simulations=simulations)
    write_json(file, {"world": key, "rate": asdict(rate)})
    return rate
