"""W&B offline: its files, parsed with its own message types, hold each record once."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("wandb")

from wandb.proto import wandb_internal_pb2

from levelfield.config import TrackSpec
from levelfield.records import Store, digest
from levelfield.track import journal_file, send_records, tracker_directory
from levelfield.track._reader import RecordReader
from levelfield.track._send import directory_id

SPEC = TrackSpec.model_validate({"name": "wandb", "mode": "offline"})
BLOCK, HEADER = 32768, 7


def chunks(data: bytes) -> Iterator[bytes]:
    """Yield the messages of a W&B file, which has the layout of a LevelDB log."""
    position, message = HEADER, b""  # the file begins with a header of the same size
    while position + HEADER <= len(data):
        if BLOCK - position % BLOCK < HEADER:
            position += BLOCK - position % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        message += data[position + HEADER : position + HEADER + length]
        position += HEADER + length
        if kind in (1, 4):  # whole, or last
            yield message
            message = b""


def read_run(records: Path, key: str) -> dict[str, Any]:
    """Return one W&B run: description, configuration, history and summary."""
    run_id = digest({"key": f"{directory_id(records)}/{key}"})
    (file,) = (tracker_directory(records) / "wandb").rglob(f"run-{run_id}.wandb")
    found: dict[str, Any] = {"history": [], "config": {}, "summary": {}, "artifacts": []}
    for chunk in chunks(file.read_bytes()):
        record = wandb_internal_pb2.Record.FromString(chunk)  # type: ignore[attr-defined]  # generated
        kind = record.WhichOneof("record_type")
        if kind == "run":
            found |= {
                "group": record.run.run_group,
                "kind": record.run.job_type,
                "name": record.run.display_name,
            }
            found["config"] |= {u.key: json.loads(u.value_json) for u in record.run.config.update}
        elif kind == "config":
            found["config"] |= {u.key: json.loads(u.value_json) for u in record.config.update}
        elif kind == "history":
            found["history"].append(
                {(i.key or "/".join(i.nested_key)): json.loads(i.value_json) for i in record.history.item}
            )
        elif kind == "summary":
            found["summary"] |= {
                (u.key or "/".join(u.nested_key)): json.loads(u.value_json) for u in record.summary.update
            }
        elif kind == "artifact":
            found["artifacts"].append([item.path for item in record.artifact.manifest.contents])
        elif kind == "request" and record.request.HasField("log_artifact"):
            artifact = record.request.log_artifact.artifact
            found["artifacts"].append([item.path for item in artifact.manifest.contents])
    return found


def check_all(records: Path) -> None:
    for record in RecordReader(Store(records)).read():
        found = read_run(records, record.key)
        assert found["name"] == record.name and found["kind"] == record.kind
        assert found["group"] == record.method
        assert {name: found["config"][name] for name in record.parameters} == dict(record.parameters)
        assert {name: found["summary"][name] for name in record.scores} == dict(record.scores)
        assert found["summary"].get("verdict", "") == record.verdict
        history = [
            (line["_step"], {name: value for name, value in line.items() if name[0] != "_"})
            for line in found["history"]
        ]
        assert history == [(point.step, dict(point.values)) for point in record.points], record.name
        if record.kind == "experiment":
            assert "index.html" in found["artifacts"][0]


@pytest.mark.slow
def test_wandb_holds_what_the_records_say_once(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    assert send_records(records, SPEC) == 30
    check_all(records)
    assert send_records(records, SPEC) == 0
    journal = journal_file(records, SPEC)
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:-6]))  # as if killed before the last ones were noted
    assert send_records(records, SPEC) == 6
    check_all(records)
    runs = [
        path
        for path in (tracker_directory(records) / "wandb" / "wandb").iterdir()
        if path.name[:7] == "offline"
    ]
    assert len(runs) == 30
