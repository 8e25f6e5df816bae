"""What a tracker is told: one entry per experiment, method, trial, rerun and run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from levelfield.config import Scalar
from levelfield.records import digest

Kind = Literal["experiment", "method", "trial", "rerun", "run"]
Status = Literal["running", "complete", "failed", "pruned"]


@dataclass(frozen=True)
class Point:
    """One measurement on a curve: at epoch ``step``."""

    step: int
    values: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a tool should show under one name, as the records have it now.

    Attributes:
        key: Names it for ever: the same part of the same folder of records, and of no other, has this key.
        kind: "experiment", "method", "trial" (of a search), "rerun" (of a confirmation) or "run" (one
            training on one fold, which has the curve).
        name: For people, from the outside in: ``triplet/trial-0003/fold-0``.
        parent: The key of the entry that it belongs to; parents are told before their children.
        status: "running" until nothing more is expected.
        parameters: Hyperparameters and settings.
        points: The curve so far, by rising step.
        scores: Numbers about the whole, such as a trial's score.
        reason: Why it failed or was pruned.
        files: What to keep beside it: the report.
    """

    key: str
    kind: Kind
    name: str
    parent: str | None = None
    status: Status = "running"
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    points: tuple[Point, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    files: tuple[Path, ...] = ()

    @property
    def method(self) -> str:
        """The method that it belongs to; empty for the experiment as a whole."""
        return "" if self.kind == "experiment" else self.name.partition("/")[0]

    @property
    def mark(self) -> str:
        """A hash that changes when there is something new to tell.

        Example:
            >>> one = Entry(key="k", kind="trial", name="triplet/trial-0000")
            >>> one.mark == Entry(key="k", kind="trial", name="triplet/trial-0000", status="failed").mark
            False
        """
        files = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in self.files]
        return digest(
            {
                "name": self.name,
                "parent": self.parent,
                "status": self.status,
                "parameters": dict(self.parameters),
                "points": [(point.step, dict(point.values)) for point in self.points],
                "scores": dict(self.scores),
                "reason": self.reason,
                "files": files,
            }
        )


class Tracker(Protocol):
    """A tool that people look at their experiments with. It is told, and never asked.

    A tracker of your own is a class with these two methods, registered under a name. It is made with
    ``experiment`` (the experiment's name) and ``folder`` (for files of its own), and its further keyword
    arguments are options in the experiment file::

        @lf.track.register("print")
        class Printer:
            def __init__(self, *, experiment: str, folder: Path, prefix: str = "") -> None: ...
            def tell(self, entry: Entry) -> None: ...
            def close(self) -> None: ...

    It lives in a process of its own, so whatever it does, it cannot change or stop a run.
    """

    def tell(self, entry: Entry) -> None:
        """Show this entry. The same one comes again, with a longer curve or another status.

        After a kill it may come again unchanged, too: what the tool holds already must not be entered twice.
        An exception says that the tool cannot be reached now; the entry is told again later.
        """
        ...

    def close(self) -> None:
        """Nothing more comes from this process."""
        ...
