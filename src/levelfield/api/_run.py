"""Run a comparison: from the experiment to its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levelfield.api._result import ExperimentResult
    from levelfield.config import Experiment
    from levelfield.protocol import Plan, ProgressCallback


def run(
    experiment: Experiment | Mapping[str, Any] | str | Path,
    out: str | Path | None = None,
    *,
    progress: ProgressCallback | None = None,
    search_only: bool = False,
    plan: str | Path | None = None,
    depart: str | None = None,
    reuse: Sequence[str | Path] = (),
) -> ExperimentResult:
    """Run an experiment, write its report, and return the result.

    Work that the directory already holds is not repeated, so a stopped experiment continues.

    Args:
        experiment: An :class:`levelfield.Experiment`, the path of an experiment file, or a mapping of values.
        out: Experiment directory. Defaults to ``runs/NAME``.
        progress: Called with progress events.
        search_only: Stop when every selection is frozen. The test set stays closed and no report is written.
            For machines that help with a shared search.
        plan: Plan file from :func:`preregister`. An experiment that departs from it is refused.
        depart: Reason of departures from the plan. They are then recorded, and every report shows them.
        reuse: Experiment directories or archives. Their finished trials of the same searches are copied
            instead of run again, so an unfinished experiment continues on another machine from its archive.

    Example::

        result = lf.run("experiment.yaml")
        print(result.verdict)
        result.pairs
    """
    from levelfield.api._result import ExperimentResult

    loaded = as_experiment(experiment)
    directory = experiment_directory(loaded, out)
    with with_trackers(loaded, directory):
        run_without_trackers(
            loaded,
            directory,
            progress=progress,
            search_only=search_only,
            plan=plan,
            depart=depart,
            reuse=reuse,
        )
    return ExperimentResult(directory)


def plan(experiment: Experiment | Mapping[str, Any] | str | Path, out: str | Path | None = None) -> Plan:
    """Estimate the runs, time and disk space that an experiment still needs; nothing is trained.

    Args:
        experiment: As in :func:`run`.
        out: Experiment directory, whose finished runs are counted. Defaults to ``runs/NAME``.
    """
    from levelfield.protocol import plan as make_plan

    return make_plan(as_experiment(experiment), out)


def as_experiment(experiment: Experiment | Mapping[str, Any] | str | Path) -> Experiment:
    """Return the experiment, loaded from a file or built from values if needed."""
    from levelfield.config import Experiment
    from levelfield.core.errors import UsageError

    if isinstance(experiment, Experiment):
        return experiment
    if isinstance(experiment, Mapping):
        return Experiment.build(**{str(key): value for key, value in experiment.items()})
    if isinstance(experiment, str | Path):
        return Experiment.load(experiment)
    raise UsageError(
        f"an experiment is an Experiment, the path of a file, or a mapping, not {type(experiment).__name__}"
    )


def experiment_directory(experiment: Experiment, out: str | Path | None = None) -> Path:
    """Return the directory of an experiment's records: ``out``, or ``runs/NAME``."""
    from levelfield.records import default_directory

    return Path(out) if out is not None else default_directory(experiment.name)


def with_trackers(experiment: Experiment, directory: Path) -> AbstractContextManager[None]:
    """Run the experiment's trackers while the block runs; its end waits a while for slow ones."""
    from levelfield.engine import is_rank_zero
    from levelfield.track import start_trackers

    followed = experiment if is_rank_zero() else experiment.model_copy(update={"track": ()})
    return start_trackers(followed, directory)


def run_without_trackers(
    experiment: Experiment,
    directory: Path,
    *,
    progress: ProgressCallback | None = None,
    search_only: bool = False,
    plan: str | Path | None = None,
    depart: str | None = None,
    reuse: Sequence[str | Path] = (),
) -> None:
    """Run an experiment and write its report; for callers that print results before trackers finish."""
    from levelfield.engine import is_rank_zero
    from levelfield.protocol import run_protocol
    from levelfield.reports import write_report

    run_protocol(
        experiment,
        directory,
        progress=progress,
        search_only=search_only,
        plan=plan,
        depart=depart,
        reuse=reuse,
    )
    if is_rank_zero() and not search_only:
        write_report(directory)
