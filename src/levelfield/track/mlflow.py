"""MLflow tracker: nested runs on a tracking server, or in a database file in the experiment directory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from levelfield.track._record import TrackerRecord
from levelfield.track._registry import register

BATCH = 500  # metrics per request; the server accepts 1000
LONGEST_VALUE = 500  # characters of a parameter; limit of older servers
DESCRIPTION = "mlflow.note.content"  # tag that MLflow shows as the description of a run
ENDINGS = {"complete": "FINISHED", "failed": "FAILED", "pruned": "KILLED"}


@register(
    "mlflow",
    package="mlflow",
    viewer="mlflow server --backend-store-uri sqlite:///{directory}/mlflow.db",
    environment=("MLFLOW_TRACKING_URI",),
)
class MLflow:
    """MLflow experiment with nested runs for methods, trials and folds; the report is an artifact.

    Args:
        experiment: Name of the MLflow experiment.
        directory: Directory of the database and the artifacts if there is no server.
        uri: Tracking server. Defaults to ``MLFLOW_TRACKING_URI``, else to a database in ``directory``.
    """

    def __init__(self, *, experiment: str, directory: Path, uri: str | None = None) -> None:
        # Notice soon that a server is down: MLflow's default retries take many minutes.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
        from mlflow import MlflowClient

        address = uri or os.environ.get("MLFLOW_TRACKING_URI")
        artifacts = None
        if not address:
            directory.mkdir(parents=True, exist_ok=True)
            address = f"sqlite:///{(directory / 'mlflow.db').resolve()}"
            artifacts = (directory / "artifacts").resolve().as_uri()
        self._client = MlflowClient(tracking_uri=address)
        self._experiment = self._experiment_id(experiment, artifacts)
        self._runs: dict[str, str] = {}
        self._steps: dict[str, dict[str, int]] = {}

    def log(self, record: TrackerRecord) -> None:
        """See :class:`levelfield.track.Tracker`."""
        run_id = self._run_id(record)
        steps = self._steps[record.key]
        for batch in _batches(record, steps):
            self._client.log_batch(run_id, metrics=batch)
            for metric in batch:
                steps[metric.key] = metric.step
        self._log_scores(run_id, record)
        if record.status != "running":
            for file in record.files:
                self._client.log_artifact(run_id, str(file), "report")
            self._client.set_terminated(run_id, ENDINGS[record.status])

    def close(self) -> None:
        """See :class:`levelfield.track.Tracker`."""

    def _experiment_id(self, name: str, artifacts: str | None) -> str:
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        try:
            return str(self._client.create_experiment(name, artifact_location=artifacts))
        except MlflowException:  # another process has created it
            found = self._client.get_experiment_by_name(name)
            if found is None:
                raise
            return str(found.experiment_id)

    def _run_id(self, record: TrackerRecord) -> str:
        """Return the ID of the MLflow run of this record, found by its tag or created."""
        if record.key in self._runs:
            return self._runs[record.key]
        wanted = f"tags.`levelfield.key` = '{record.key}'"
        found = self._client.search_runs([self._experiment], wanted, max_results=1)
        if found:
            run = found[0]
            self._steps[record.key] = {
                name: self._last_step(run.info.run_id, name) for name in run.data.metrics
            }
        else:
            tags = {"levelfield.key": record.key, "levelfield.kind": record.kind}
            if record.method:
                tags["levelfield.method"] = record.method
            if record.parent is not None:
                tags["mlflow.parentRunId"] = self._runs.get(record.parent) or self._parent_run_id(
                    record.parent
                )
            run = self._client.create_run(self._experiment, tags=tags, run_name=record.name)
            self._steps[record.key] = {}
        self._runs[record.key] = str(run.info.run_id)
        return self._runs[record.key]

    def _parent_run_id(self, key: str) -> str:
        """Return the run ID of a parent that an earlier process sent."""
        found = self._client.search_runs(
            [self._experiment], f"tags.`levelfield.key` = '{key}'", max_results=1
        )
        return str(found[0].info.run_id) if found else ""

    def _last_step(self, run_id: str, metric: str) -> int:
        return max((point.step for point in self._client.get_metric_history(run_id, metric)), default=-1)

    def _log_scores(self, run_id: str, record: TrackerRecord) -> None:
        """Send parameters, and scores that MLflow does not show yet.

        MLflow parameters cannot be changed. If a value changes later, such as the selection of a continued
        search, the new value becomes a tag.
        """
        from mlflow.entities import Metric, Param, RunTag

        data = self._client.get_run(run_id).data
        values = {name: str(value)[:LONGEST_VALUE] for name, value in record.parameters.items()}
        params = [Param(name, value) for name, value in values.items() if name not in data.params]
        later = {
            f"now.{name}": value
            for name, value in values.items()
            if data.params.get(name, value) != value or f"now.{name}" in data.tags
        }
        now = int(time.time() * 1000)
        steps = self._steps[record.key]
        metrics = [
            Metric(name, value, now, steps.get(name, -1) + 1)
            for name, value in record.scores.items()
            if data.metrics.get(name) != value
        ]
        later |= {"levelfield.reason": record.reason} if record.reason else {}
        later |= {DESCRIPTION: record.verdict} if record.verdict else {}
        tags = [RunTag(name, value) for name, value in later.items() if data.tags.get(name) != value]
        for start in range(0, len(params), 100):
            self._client.log_batch(run_id, params=params[start : start + 100])
        if metrics or tags:
            self._client.log_batch(run_id, metrics=metrics, tags=tags)
        steps |= {metric.key: metric.step for metric in metrics}


def _batches(record: TrackerRecord, steps: dict[str, int]) -> Iterator[list[Any]]:
    """Yield the points of the curve after the last known step of each metric, in batches."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    fresh = [
        Metric(name, value, now, point.step)
        for point in record.points
        for name, value in point.values.items()
        if point.step > steps.get(name, -1)
    ]
    for start in range(0, len(fresh), BATCH):
        yield fresh[start : start + BATCH]
