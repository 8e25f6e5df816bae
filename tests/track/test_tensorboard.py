"""TensorBoard: its own reader finds each point of the records once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("tensorboard")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from levelfield.analysis import analyze, conclude_experiment
from levelfield.config import TrackSpec
from levelfield.records import Store
from levelfield.track import MetricPoint, TrackerRecord, journal_file, send_records, tracker_directory
from levelfield.track._reader import RecordReader
from levelfield.track.tensorboard import SESSION, TensorBoard

SPEC = TrackSpec(name="tensorboard")


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """Return every scalar in a directory of event files, as TensorBoard shows it."""
    read = EventAccumulator(str(directory), size_guidance={"scalars": 0, "tensors": 0})
    read.Reload()
    found = {
        tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in read.Tags()["scalars"]
    }
    for tag in set(read.Tags()["tensors"]) - {SESSION}:
        found[tag] = [(event.step, event.tensor_proto.float_val[0]) for event in read.Tensors(tag)]
    return found


def check_all(records: Path) -> None:
    """Every record is shown, each of its points once."""
    base = tracker_directory(records) / "tensorboard"
    for record in RecordReader(Store(records)).read():
        if record.kind == "experiment":
            continue
        found = scalars(base / record.name)
        expected: dict[str, list[tuple[int, float]]] = {}
        for point in record.points:
            for name, value in point.values.items():
                expected.setdefault(name, []).append((point.step, value))
        for name, value in record.scores.items():
            expected[name] = [(0, value)]
        assert found.keys() == expected.keys(), record.name
        for name, points in expected.items():
            assert [step for step, _ in found[name]] == [step for step, _ in points], (record.name, name)
            assert [v for _, v in found[name]] == pytest.approx([v for _, v in points])


def test_tensorboard_shows_what_the_records_say(records: Path) -> None:
    assert send_records(records, SPEC) == 30
    check_all(records)


def test_nothing_is_entered_twice(records: Path) -> None:
    send_records(records, SPEC)
    assert send_records(records, SPEC) == 0
    (journal_file(records, SPEC)).unlink()  # as if killed before anything was noted
    assert send_records(records, SPEC) == 30
    check_all(records)


def test_a_killed_tracker_goes_on_where_its_files_end(records: Path) -> None:
    """The last record of an event file is cut short, as a kill leaves it."""
    send_records(records, SPEC)
    (journal_file(records, SPEC)).unlink()
    for file in (tracker_directory(records) / "tensorboard").rglob("events.*"):
        file.write_bytes(file.read_bytes()[:-7])
    send_records(records, SPEC)
    check_all(records)


def test_hyperparameters_are_in_the_table(records: Path) -> None:
    from tensorboard.plugins.hparams import plugin_data_pb2

    send_records(records, SPEC)
    read = EventAccumulator(str(tracker_directory(records) / "tensorboard" / "contrastive" / "trial-0000"))
    read.Reload()
    content = read.summary_metadata[SESSION].plugin_data.content
    session = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
    store = Store(records)
    trial = store.trials(store.experiment_record().searches["contrastive"][0])[0]
    for name, value in trial.hyperparameters.items():
        assert session.hparams[name].number_value == value
    assert session.hparams["method"].string_value == "contrastive"


def test_deleted_files_are_written_again(records: Path) -> None:
    send_records(records, SPEC)
    shutil.rmtree(tracker_directory(records) / "tensorboard")
    assert send_records(records, SPEC) == 30
    check_all(records)


def test_another_destination_receives_everything(records: Path, tmp_path: Path) -> None:
    """Each directory of event files has its own journal."""
    send_records(records, SPEC)
    elsewhere = TrackSpec.model_validate({"name": "tensorboard", "logdir": str(tmp_path / "shared")})
    assert send_records(records, elsewhere) == 30
    assert "loss" in scalars(tmp_path / "shared" / "tiny" / "contrastive" / "trial-0000" / "fold-0")


def test_curves_of_an_earlier_version_are_not_mixed_in(tmp_path: Path) -> None:
    """A search that went on may choose another trial: its rerun-00 is another run of the same name."""
    for life in range(2):  # the second one finds the files of the first
        for key, level in (("earlier", 0.1), ("later", 0.5)):
            points = tuple(MetricPoint(step, {"loss": level}) for step in range(3 - (life == 0)))
            tool = TensorBoard(experiment="e", directory=tmp_path)
            tool.log(TrackerRecord(key=key, kind="run", name="triplet/rerun-00/fold-0", points=points))
            tool.close()
    levels = {"fold-0": 0.1, "fold-0~2": 0.5}
    for name, level in levels.items():
        found = scalars(tmp_path / "triplet" / "rerun-00" / name)["loss"]
        assert [step for step, _ in found] == [0, 1, 2]
        assert [value for _, value in found] == pytest.approx([level] * 3)


def test_settings_and_the_final_table_are_texts_once(records: Path) -> None:
    for _ in range(2):
        send_records(records, SPEC)
        journal_file(records, SPEC).unlink()
    read = EventAccumulator(str(tracker_directory(records) / "tensorboard"))
    read.Reload()
    texts = {
        tag: [event.tensor_proto.string_val[0].decode() for event in read.Tensors(tag)]
        for tag in ("settings", "results", "verdict")
    }
    assert [len(found) for found in texts.values()] == [1, 1, 1]
    assert texts["verdict"] == [" ".join(conclude_experiment(analyze(records)).answer)]
    assert "| search.trials | 2 |" in texts["settings"][0]
    assert texts["results"][0] == (records / "report" / "results.md").read_text(encoding="utf-8")


def test_its_own_table_of_hyperparameters_lists_every_trial_with_its_score(records: Path) -> None:
    """Asked as the page asks: by the plug-in's own code over the event files."""
    from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
    from tensorboard.context import RequestContext
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.hparams import api_pb2, backend_context, get_experiment, list_session_groups

    send_records(records, SPEC)
    files = plugin_event_multiplexer.EventMultiplexer()
    files.AddRunsFromDirectory(str(tracker_directory(records) / "tensorboard"))
    files.Reload()
    provider = data_provider.MultiplexerDataProvider(files, "")
    table = backend_context.Context(TBContext(data_provider=provider))
    asked = get_experiment.Handler(RequestContext(), table, "", api_pb2.GetExperimentRequest()).run()
    assert {"method", "neg_margin", "pos_margin"} <= {info.name for info in asked.hparam_infos}
    statuses = [getattr(api_pb2, name) for name in ("STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_RUNNING")]
    columns = [api_pb2.ColParams(hparam=info.name) for info in asked.hparam_infos]
    columns += [api_pb2.ColParams(metric=info.name) for info in asked.metric_infos]
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0, slice_size=100, allowed_statuses=statuses, col_params=columns
    )
    groups = list_session_groups.Handler(RequestContext(), table, "", request).run().session_groups
    found = {
        group.sessions[0].name: {value.name.tag: value.value for value in group.metric_values}
        for group in groups
    }
    store = Store(records)
    for method, (search,) in store.experiment_record().searches.items():
        for trial in store.trials(search):
            shown = found[f"{method}/trial-{trial.number:04d}"]
            assert shown["score"] == pytest.approx(trial.score)
