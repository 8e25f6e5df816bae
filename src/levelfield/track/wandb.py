"""Weights & Biases: one W&B run per training, trial, rerun and method, online or as files to sync later."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Literal

from levelfield.records import digest
from levelfield.track._entry import Entry
from levelfield.track._registry import register

Mode = Literal["auto", "online", "offline"]


@register(
    "wandb",
    package="wandb",
    look="wandb sync {folder}/wandb/offline-run-*",
    environment=("WANDB_BASE_URL", "WANDB_ENTITY", "WANDB_MODE"),
)
class Wandb:
    """One project, grouped by method, with the kind of entry as job type; the report is an artefact.

    Args:
        experiment: The project's name, if ``project`` is not given.
        folder: Where W&B keeps its files.
        project: Another project.
        entity: The team or user that the project belongs to.
        mode: "online", "offline" (send it later with ``wandb sync``), or "auto": as ``WANDB_MODE`` says,
            else online where W&B has an API key, else offline.
    """

    def __init__(
        self,
        *,
        experiment: str,
        folder: Path,
        project: str | None = None,
        entity: str | None = None,
        mode: Mode = "auto",
    ) -> None:
        self._project = project or experiment
        self._entity = entity
        self._folder = folder
        self._online = _is_online(mode)
        self._open: dict[str, tuple[Any, int]] = {}

    def tell(self, entry: Entry) -> None:
        """See :class:`levelfield.track.Tracker`."""
        if entry.status == "running" and entry.kind != "run":
            return  # nothing to see yet, and an open W&B run costs memory
        run, told = self._open[entry.key] if entry.key in self._open else self._begin(entry)
        for point in entry.points:
            if point.step > told:
                run.log(dict(point.values), step=point.step)
                told = point.step
        self._open[entry.key] = (run, told)
        if entry.status != "running":
            run.config.update(dict(entry.parameters), allow_val_change=True)
            run.summary.update({**entry.scores, "status": entry.status, "reason": entry.reason})
            self._keep_files(run, entry)
            del self._open[entry.key]
            run.finish(exit_code=0)

    def close(self) -> None:
        """See :class:`levelfield.track.Tracker`."""
        for run, _ in self._open.values():
            run.finish(exit_code=0)
        self._open.clear()

    def _begin(self, entry: Entry) -> tuple[Any, int]:
        """The W&B run of an entry, and the last step that it has."""
        import wandb

        run_id = digest({"key": entry.key})
        if not self._online:  # what an earlier process wrote of it is written anew, as a whole
            for left in self._folder.glob(f"wandb/offline-run-*-{run_id}"):
                shutil.rmtree(left)
        self._folder.mkdir(parents=True, exist_ok=True)
        run = wandb.init(
            project=self._project,
            entity=self._entity,
            id=run_id,
            name=entry.name,
            group=entry.method or None,
            job_type=entry.kind,
            config=dict(entry.parameters),
            dir=str(self._folder),
            mode="online" if self._online else "offline",
            resume="allow" if self._online else None,
            reinit="create_new",
            settings=wandb.Settings(
                silent=True, console="off", disable_git=True, disable_code=True, x_disable_stats=True
            ),
        )
        return run, run.step - 1 if self._online else -1

    @staticmethod
    def _keep_files(run: Any, entry: Entry) -> None:
        if not entry.files:
            return
        import wandb

        artefact = wandb.Artifact(f"report-{run.id}", type="report")
        for file in entry.files:
            artefact.add_file(str(file))
        run.log_artifact(artefact)


def _is_online(mode: Mode) -> bool:
    if mode == "auto":
        said = os.environ.get("WANDB_MODE")
        return said == "online" if said else _has_key()
    return mode == "online"


def _has_key() -> bool:
    """Whether W&B knows an API key, from the environment or from ``wandb login``."""
    import wandb

    try:
        return bool(wandb.login(prompt=False))
    except Exception:  # without a key, or without a network to check it
        return False
