"""MLflow with a real server: each record is sent once, also after the server was down."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("mlflow")
pytest.importorskip("flask")

from mlflow import MlflowClient

from levelfield.config import TrackSpec
from levelfield.records import Store
from levelfield.track import TrackerRecord, journal_file, send_records, tracker_directory
from levelfield.track._reader import RecordReader
from levelfield.track._send import directory_id
from levelfield.track.mlflow import MLflow

pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(directory: Path, port: int) -> Iterator[str]:
    """Start a local tracking server with its data in ``directory``; yield its address."""
    directory.mkdir(exist_ok=True)
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{directory / 'mlflow.db'}"]
    command += ["--artifacts-destination", str(directory / "artifacts")]
    quiet = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=quiet, start_new_session=True)
        try:
            deadline = time.monotonic() + 240
            while time.monotonic() < deadline and process.poll() is None:
                try:
                    urllib.request.urlopen(f"{address}/health", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.2)
            yield address
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def check_all(records: Path, uri: str) -> None:
    """Every record is an MLflow run below its parent's, with each point of its curve once."""
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("tiny")
    assert experiment is not None
    runs = {
        run.data.tags["levelfield.key"]: run
        for run in client.search_runs([experiment.experiment_id], max_results=1000)
    }
    mine = directory_id(records)
    tracked = list(RecordReader(Store(records)).read())
    assert len(client.search_runs([experiment.experiment_id], max_results=1000)) == len(tracked)
    for record in tracked:
        run = runs[f"{mine}/{record.key}"]
        assert run.info.run_name == record.name and run.info.status == "FINISHED"
        assert run.data.tags.get("mlflow.note.content", "") == record.verdict
        parent = None if record.parent is None else runs[f"{mine}/{record.parent}"].info.run_id
        assert run.data.tags.get("mlflow.parentRunId") == parent
        assert {name: str(value)[:500] for name, value in record.parameters.items()} == run.data.params
        for name, value in record.scores.items():
            history = client.get_metric_history(run.info.run_id, name)
            assert [point.value for point in history] == [value], (record.name, name)
        if record.kind == "run" and record.name.endswith("fold-1"):
            history = client.get_metric_history(run.info.run_id, "validation/map_at_r")
            assert [(point.step, point.value) for point in history] == [
                (point.step, point.values["validation/map_at_r"]) for point in record.points
            ]
        if record.kind == "experiment":
            listed = {file.path for file in client.list_artifacts(run.info.run_id, "report")}
            assert "report/index.html" in listed


def test_a_server_gets_what_the_records_say_once(records: Path, tmp_path: Path) -> None:
    port = free_port()
    spec = TrackSpec.model_validate({"name": "mlflow", "uri": f"http://127.0.0.1:{port}"})
    with pytest.raises(Exception, match=r"(?i)connection|retries|refused"):
        send_records(records, spec)  # the server is down
    with server(tmp_path / "server", port) as uri:
        assert send_records(records, spec) == 30
        check_all(records, uri)
        assert send_records(records, spec) == 0
        journal_file(records, spec).unlink()  # as if killed before anything was noted
        assert send_records(records, spec) == 30
        check_all(records, uri)


def test_without_a_server_it_is_a_database_beside_the_records(
    records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert send_records(records, TrackSpec(name="mlflow")) == 30
    check_all(records, f"sqlite:///{tracker_directory(records) / 'mlflow' / 'mlflow.db'}")


def test_a_parameter_that_changed_is_shown_beside_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that went on may select another trial; MLflow keeps the first value for ever."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for margin in (0.1, 0.2, 0.1):
        tool = MLflow(experiment="e", directory=tmp_path)
        tool.log(
            TrackerRecord(key="m", kind="method", name="m", status="complete", parameters={"margin": margin})
        )
        client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
        found = client.get_experiment_by_name("e")
        assert found is not None
        (run,) = client.search_runs([found.experiment_id])
        assert run.data.params == {"margin": "0.1"}
        assert run.data.tags.get("now.margin", "0.1") == str(margin)


def test_a_server_given_later_receives_everything(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # MLflow writes artifacts to the current directory
    send_records(records, TrackSpec.model_validate({"name": "mlflow", "uri": f"sqlite:///{tmp_path}/a.db"}))
    other = TrackSpec.model_validate({"name": "mlflow", "uri": f"sqlite:///{tmp_path}/b.db"})
    assert send_records(records, other) == 30
    assert send_records(records, other) == 0
