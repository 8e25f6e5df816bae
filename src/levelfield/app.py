"""One comparison from the experiment to the report: what ``lf.run`` and ``levelfield run`` do."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levelfield.config import Experiment
    from levelfield.protocol import Progress


def run(
    experiment: Experiment,
    out: str | Path | None = None,
    *,
    progress: Progress | None = None,
    search_only: bool = False,
) -> Path:
    """Carry out an experiment and write its report. Returns the folder of its records.

    Args:
        experiment: From :meth:`levelfield.Experiment.load` or ``build``.
        out: The folder of records; ``runs/<name>`` by default. What it holds already is not computed again.
        progress: Is told of each finished run.
        search_only: Stop when every selection is frozen, with the test set closed and without a report: for
            a machine that only helps with a shared search.
    """
    root = folder_of(experiment, out)
    with watched(experiment, root):
        return unwatched(experiment, root, progress=progress, search_only=search_only)


def folder_of(experiment: Experiment, out: str | Path | None) -> Path:
    """The folder of an experiment's records: ``out``, or ``runs/<name>``."""
    return Path(out) if out is not None else Path("runs") / experiment.name


def watched(experiment: Experiment, root: Path) -> AbstractContextManager[None]:
    """The experiment's trackers follow ``root`` inside the block; its end waits a while for slow ones."""
    from levelfield.engine import is_chief
    from levelfield.track import watching

    return watching(experiment if is_chief() else experiment.model_copy(update={"track": ()}), root)


def unwatched(
    experiment: Experiment, root: Path, *, progress: Progress | None = None, search_only: bool = False
) -> Path:
    """:func:`run` without the trackers: who shows results need not let people wait for a slow one."""
    from levelfield.engine import is_chief
    from levelfield.protocol import run as carry_out
    from levelfield.reports import write_report

    carry_out(experiment, root, progress=progress, search_only=search_only)
    if is_chief() and not search_only:
        write_report(root)
    return root
