"""TensorBoard reads back, with its own reader, what the records say: each point once."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from levelfield.config import TrackSpec
from levelfield.records import Store
from levelfield.track import folder_of, send_records
from levelfield.track._entries import Reader
from levelfield.track.tensorboard import SESSION

SPEC = TrackSpec(name="tensorboard")


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Every scalar of a folder of event files, as TensorBoard shows it."""
    read = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    read.Reload()
    found = {
        tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]
    }
    for tag in set(read.Tags()["tensors"]) - {SESSION}:
        found[tag] = [(event.step, event.tensor_proto.float_val[0]) for event in read.Tensors(tag)]
    return found


def check_all(records: Path) -> None:
    """Every entry is shown, each of its points once."""
    base = folder_of(records) / "tensorboard"
    for entry in Reader(Store(records)).entries():
        if entry.kind == "experiment":
            continue
        found = scalars(base / entry.name)
        expected: dict[str, list[tuple[int, float]]] = {}
        for point in entry.points:
            for name, value in point.values.items():
                expected.setdefault(name, []).append((point.step, value))
        for name, value in entry.scores.items():
            expected[name] = [(0, value)]
        assert found.keys() == expected.keys(), entry.name
        for name, points in expected.items():
            assert [step for step, _ in found[name]] == [step for step, _ in points], (entry.name, name)
            assert [v for _, v in found[name]] == pytest.approx([v for _, v in points])


def test_tensorboard_shows_what_the_records_say(records: Path) -> None:
    assert send_records(records, SPEC) == 30
    check_all(records)


def test_nothing_is_entered_twice(records: Path) -> None:
    send_records(records, SPEC)
    assert send_records(records, SPEC) == 0
    (folder_of(records) / "tensorboard.jsonl").unlink()  # as if killed before anything was noted
    assert send_records(records, SPEC) == 30
    check_all(records)


def test_a_killed_tracker_goes_on_where_its_files_end(records: Path) -> None:
    """The last record of an event file is cut short, as a kill leaves it."""
    send_records(records, SPEC)
    (folder_of(records) / "tensorboard.jsonl").unlink()
    for file in (folder_of(records) / "tensorboard").rglob("events.*"):
        file.write_bytes(file.read_bytes()[:-7])
    send_records(records, SPEC)
    check_all(records)


def test_hyperparameters_are_in_the_table(records: Path) -> None:
    from tensorboard.plugins.hparams import plugin_data_pb2

    send_records(records, SPEC)
    read = EventAccumulator(str(folder_of(records) / "tensorboard" / "contrastive" / "trial-0000"))
    read.Reload()
    content = read.summary_metadata[SESSION].plugin_data.content
    session = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    store = Store(records)
    trial = store.trials(store.index().searches["contrastive"][0])[0]
    for name, value in trial.hyperparameters.items():
        assert session.hparams[name].number_value == value
    assert session.hparams["method"].string_value == "contrastive"
