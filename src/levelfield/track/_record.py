"""Tracker records: one for each experiment, method, trial, rerun and run."""

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
class MetricPoint:
    """Point of a curve: metric values at epoch ``step``."""

    step: int
    values: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class TrackerRecord:
    """Data that a tracker shows under one name.

    Attributes:
        key: Permanent unique key. The same part of the same experiment directory always has this key.
        kind: "experiment", "method", "trial" (of a search), "rerun" (of a confirmation) or "run" (one
            training on one fold, which has the curve).
        name: Display name, such as ``triplet/trial-0003/fold-0``.
        parent: Key of the parent record; parents are sent before their children.
        status: "running" until the record is final.
        parameters: Hyperparameters and settings.
        points: Curve so far, by ascending step.
        scores: Summary values, such as a trial's score.
        reason: Reason of a failure or of pruning.
        files: Files to attach: the report.
        verdict: Conclusion of a finished experiment; empty for other records.
    """

    key: str
    kind: Kind
    name: str
    parent: str | None = None
    status: Status = "running"
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    points: tuple[MetricPoint, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    files: tuple[Path, ...] = ()
    verdict: str = ""

    @property
    def method(self) -> str:
        """Method that the record belongs to; empty for the experiment."""
        return "" if self.kind == "experiment" else self.name.partition("/")[0]

    @property
    def content_digest(self) -> str:
        """Digest of the content; it changes when there is something new to send.

        Example:
            >>> from dataclasses import replace
            >>> running = TrackerRecord(key="k", kind="trial", name="triplet/trial-0000")
            >>> running.content_digest == replace(running, status="failed").content_digest
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
                **({"verdict": self.verdict} if self.verdict else {}),
            }
        )


class Tracker(Protocol):
    """Interface of a tracker, a tool that shows experiments. Trackers receive data and return none.

    A custom tracker is a class with these two methods, registered under a name. It is created with
    ``experiment`` (the experiment's name) and ``directory`` (for its own files). Further keyword arguments
    are options in the experiment file::

        @lf.track.register("print")
        class Printer:
            def __init__(self, *, experiment: str, directory: Path, prefix: str = "") -> None: ...
            def log(self, record: TrackerRecord) -> None: ...
            def close(self) -> None: ...

    A tracker runs in its own process and cannot change or stop a run.
    """

    def log(self, record: TrackerRecord) -> None:
        """Show this record. The same record comes again when its curve grows or its status changes.

        After a kill an unchanged record may come again, so the tracker must not enter data twice. Raise an
        exception if the tool cannot be reached; the record is sent again later.
        """
        ...

    def close(self) -> None:
        """Finish; no more records come from this process."""
        ...
