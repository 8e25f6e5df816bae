"""Checks of finished records: consistency and statistical power."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levelfield.analysis import PowerEstimate


def verify(
    directory: str | PathLike[str], *, plan: str | Path | None = None, anchor: str | Path | None = None
) -> list[str]:
    """Return every problem with the records and tables of an experiment, one sentence each.

    An empty list means that ledger, selections, trials, scores and tables fit together.

    Args:
        directory: Experiment directory, an archive of it, or the result of :func:`run`.
        plan: Plan file from :func:`preregister`. Defaults to the copy in the directory, if there is one.
        anchor: Anchor file from :func:`anchor`, or its digest.
    """
    from levelfield.core.errors import RunError
    from levelfield.core.files import is_locked
    from levelfield.reports import verify_experiment

    if is_locked(Path(directory) / ".lock"):
        raise RunError(
            f"another levelfield command is still writing to {directory}; verify it when that has ended"
        )
    return verify_experiment(Path(directory), plan=plan, anchor=anchor)


def verify_notes(
    directory: str | PathLike[str], *, plan: str | Path | None = None, anchor: str | Path | None = None
) -> list[str]:
    """Return what a reader of consistent records should know, such as a clock that was set back.

    Arguments as for :func:`verify`.
    """
    from levelfield.reports import experiment_notes

    return experiment_notes(Path(directory), plan=plan, anchor=anchor)


def power(
    directory: str | PathLike[str],
    *,
    difference: float | None = None,
    chance: float = 0.8,
    metric: str | None = None,
    setting: str = "concatenated",
) -> PowerEstimate:
    """Estimate from an experiment's records which differences its budget can show.

    Args:
        directory: Experiment directory, or the result of :func:`run`.
        difference: Difference to find, as tables print it: 0.5 is half a point. The estimate then names the
            cheapest budget that finds it.
        chance: Wanted probability of finding it.
        metric: Defaults to the selection metric.
        setting: "concatenated" or "separated".
    """
    from levelfield.analysis import analyze, estimate_power
    from levelfield.core.errors import UsageError

    if not 0 < chance < 1:
        raise UsageError(f"chance must be between 0 and 1, got {chance}")
    if difference is not None and not difference > 0:
        raise UsageError(f"difference must be above 0, got {difference}")
    analysis = analyze(Path(directory), setting=setting, metric=metric)
    wanted = None if difference is None else difference / analysis.metric_info.scale
    return estimate_power(analysis, difference=wanted, power=chance)
