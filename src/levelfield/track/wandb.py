"""Weights & Biases tracker: a W&B run for each run, trial, rerun and method, online or offline."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Literal

from levelfield.records import digest
from levelfield.track._record import TrackerRecord
from levelfield.track._registry import register

Mode = Literal["auto", "online", "offline"]


@register(
    "wandb",
    package="wandb",
    viewer="wandb sync {directory}/wandb/offline-run-*",
    environment=("WANDB_BASE_URL", "WANDB_ENTITY", "WANDB_MODE"),
)
class Wandb:
    """W&B project, grouped by method, with the kind of record as job type; the report is an artifact.

    Args:
        experiment: Name of the experiment; the default project name.
        directory: Directory of W&B's files.
        project: Project name.
        entity: Team or user of the project.
        mode: "online", "offline" (for ``wandb sync`` later) or "auto". "auto" follows ``WANDB_MODE``;
            without it, "auto" is online with an API key and offline otherwise.
    """

    def __init__(
        self,
        *,
        experiment: str,
        directory: Path,
        project: str | None = None,
        entity: str | None = None,
        mode: Mode = "auto",
    ) -> None:
        self._project = project or experiment
        self._entity = entity
        self._directory = directory
        self._online = _is_online(mode)
        self._open: dict[str, tuple[Any, int]] = {}

    def log(self, record: TrackerRecord) -> None:
        """See :class:`levelfield.track.Tracker`."""
        if record.status == "running" and record.kind != "run":
            return  # nothing to show yet, and an open W&B run costs memory
        run, last_step = self._open[record.key] if record.key in self._open else self._start_run(record)
        for point in record.points:
            if point.step > last_step:
                run.log(dict(point.values), step=point.step)
                last_step = point.step
        self._open[record.key] = (run, last_step)
        if record.status != "running":
            run.config.update(dict(record.parameters), allow_val_change=True)
            run.summary.update({**record.scores, "status": record.status, "reason": record.reason})
            if record.verdict:
                run.summary["verdict"] = record.verdict
            self._log_files(run, record)
            del self._open[record.key]
            run.finish(exit_code=0)

    def close(self) -> None:
        """See :class:`levelfield.track.Tracker`."""
        for run, _ in self._open.values():
            run.finish(exit_code=0)
        self._open.clear()

    def _start_run(self, record: TrackerRecord) -> tuple[Any, int]:
        """Start the W&B run of a record; return it with its last step."""
        import wandb

        run_id = digest({"key": record.key})
        if not self._online:  # replace the files of an earlier process
            for left in self._directory.glob(f"wandb/offline-run-*-{run_id}"):
                shutil.rmtree(left)
        self._directory.mkdir(parents=True, exist_ok=True)
        run = wandb.init(
            project=self._project,
            entity=self._entity,
            id=run_id,
            name=record.name,
            group=record.method or None,
            job_type=record.kind,
            config=dict(record.parameters),
            dir=str(self._directory),
            mode="online" if self._online else "offline",
            resume="allow" if self._online else None,
            reinit="create_new",
            settings=wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True
            ),
        )
        return run, run.step - 1 if self._online else -1

    @staticmethod
    def _log_files(run: Any, record: TrackerRecord) -> None:
        if not record.files:
            return
        import wandb

        artifact = wandb.Artifact(f"report-{run.id}", type="report")
        for file in record.files:
            artifact.add_file(str(file))
        run.log_artifact(artifact)


def _is_online(mode: Mode) -> bool:
    if mode == "auto":
        chosen = os.environ.get("WANDB_MODE")
        return chosen == "online" if chosen else _has_key()
    return mode == "online"


def _has_key() -> bool:
    """Return True if W&B has an API key, from the environment or from ``wandb login``."""
    import wandb

    try:
        return bool(wandb.login(prompt=False))
    except Exception:  # no key, or no network to check it
        return False
