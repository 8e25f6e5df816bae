"""MLflow: nested runs on a tracking server, or in a database file beside the records."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from levelfield.track._entry import Entry
from levelfield.track._registry import register

BATCH = 500  # metrics in one request; the server takes 1000
LONGEST_VALUE = 500  # characters of a parameter, which older servers take
ENDINGS = {"complete": "FINISHED", "failed": "FAILED", "pruned": "KILLED"}


@register(
    "mlflow",
    package="mlflow",
    look="mlflow server --backend-store-uri sqlite:///{folder}/mlflow.db",
    environment=("MLFLOW_TRACKING_URI",),
)
class MLflow:
    """One MLflow experiment; methods, trials and folds are nested runs, the report is an artefact.

    Args:
        experiment: The name of the MLflow experiment.
        folder: Where the database and the artefacts go if there is no server.
        uri: The tracking server; without it ``MLFLOW_TRACKING_URI``, without that a database in ``folder``.
    """

    def __init__(self, *, experiment: str, folder: Path, uri: str | None = None) -> None:
        # A server that is down must be noticed soon: MLflow's own patience is many minutes.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
        from mlflow import MlflowClient

        address = uri or os.environ.get("MLFLOW_TRACKING_URI")
        artefacts = None
        if not address:
            folder.mkdir(parents=True, exist_ok=True)
            address = f"sqlite:///{(folder / 'mlflow.db').resolve()}"
            artefacts = (folder / "artifacts").resolve().as_uri()
        self._client = MlflowClient(tracking_uri=address)
        self._experiment = self._experiment_id(experiment, artefacts)
        self._runs: dict[str, str] = {}
        self._steps: dict[str, dict[str, int]] = {}

    def tell(self, entry: Entry) -> None:
        """See :class:`levelfield.track.Tracker`."""
        run_id = self._run_id(entry)
        steps = self._steps[entry.key]
        for batch in _batches(entry, steps):
            self._client.log_batch(run_id, metrics=batch)
            for metric in batch:
                steps[metric.key] = metric.step
        self._tell_scores(run_id, entry)
        if entry.status != "running":
            for file in entry.files:
                self._client.log_artifact(run_id, str(file), "report")
            self._client.set_terminated(run_id, ENDINGS[entry.status])

    def close(self) -> None:
        """See :class:`levelfield.track.Tracker`."""

    def _experiment_id(self, name: str, artefacts: str | None) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        try:
            return str(self._client.create_experiment(name, artifact_location=artefacts))
        except MlflowException:  # another process was faster
            found = self._client.get_experiment_by_name(name)
            if found is None:
                raise
            return str(found.experiment_id)

    def _run_id(self, entry: Entry) -> str:
        """The MLflow run of this entry, found by its tag or made."""
        if entry.key in self._runs:
            return self._runs[entry.key]
        wanted = f"tags.`levelfield.key` = '{entry.key}'"
        found = self._client.search_runs([self._experiment], wanted, max_results=1)
        if found:
            run = found[0]
            self._steps[entry.key] = {
                name: self._last_step(run.info.run_id, name) for name in run.data.metrics
            }
        else:
            tags = {"levelfield.key": entry.key, "levelfield.kind": entry.kind}
            if entry.method:
                tags["levelfield.method"] = entry.method
            if entry.parent is not None:
                tags["mlflow.parentRunId"] = self._runs.get(entry.parent) or self._parent(entry.parent)
            run = self._client.create_run(self._experiment, tags=tags, run_name=entry.name)
            self._steps[entry.key] = {}
        self._runs[entry.key] = str(run.info.run_id)
        return self._runs[entry.key]

    def _parent(self, key: str) -> str:
        """A parent that an earlier process told."""
        found = self._client.search_runs(
            [self._experiment], f"tags.`levelfield.key` = '{key}'", max_results=1
        )
        return str(found[0].info.run_id) if found else ""

    def _last_step(self, run_id: str, metric: str) -> int:
        return max((point.step for point in self._client.get_metric_history(run_id, metric)), default=-1)

    def _tell_scores(self, run_id: str, entry: Entry) -> None:
        """Parameters, and scores that it does not show yet.

        MLflow never changes a parameter. One that has another value now, such as the selection of a search
        that went on, is a tag beside it.
        """
        from mlflow.entities import Metric, Param, RunTag

        data = self._client.get_run(run_id).data
        values = {name: str(value)[:LONGEST_VALUE] for name, value in entry.parameters.items()}
        params = [Param(name, value) for name, value in values.items() if name not in data.params]
        later = {
            f"now.{name}": value
            for name, value in values.items()
            if data.params.get(name, value) != value or f"now.{name}" in data.tags
        }
        now = int(time.time() * 1000)
        steps = self._steps[entry.key]
        metrics = [
            Metric(name, value, now, steps.get(name, -1) + 1)
            for name, value in entry.scores.items()
            if data.metrics.get(name) != value
        ]
        later |= {"levelfield.reason": entry.reason} if entry.reason else {}
        tags = [RunTag(name, value) for name, value in later.items() if data.tags.get(name) != value]
        for start in range(0, len(params), 100):
            self._client.log_batch(run_id, params=params[start : start + 100])
        if metrics or tags:
            self._client.log_batch(run_id, metrics=metrics, tags=tags)
        steps |= {metric.key: metric.step for metric in metrics}


def _batches(entry: Entry, steps: dict[str, int]) -> Iterator[list[Any]]:
    """The points of the curve that come after the last known step of each metric."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    fresh = [
        Metric(name, value, now, point.step)
        for point in entry.points
        for name, value in point.values.items()
        if point.step > steps.get(name, -1)
    ]
    for start in range(0, len(fresh), BATCH):
        yield fresh[start : start + BATCH]
