"""The exported model is the confirmed one: its test scores equal those of the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import TOY_PLUGIN, tiny_values
from typer.testing import CliRunner

import levelfield as lf
from levelfield.api import export
from levelfield.api._export import _threshold
from levelfield.cli._app import app
from levelfield.core.errors import UsageError
from levelfield.data.views import open_dataset, split_dataset
from levelfield.records import Store
from levelfield.retrieval.embedders import MatchThreshold, calibrate_threshold, read_model_card

pytestmark = pytest.mark.slow  # experiments, end to end


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values = tiny_values() | {"methods": ["contrastive", "triplet"]}
    return lf.run(lf.Experiment.build(**values), tmp_path_factory.mktemp("runs") / "tiny").path


def read_test_images(directory: Path) -> tuple[list[torch.Tensor], np.ndarray]:
    experiment: Any = Store(directory).experiment_record().experiment
    dataset = open_dataset(experiment.dataset.name, {})
    plan = split_dataset(dataset, experiment.split.name, experiment.split.options)
    return [dataset.images.read(int(row)) for row in plan.test], dataset.labels[plan.test]


@pytest.mark.parametrize("fold", [None, 0, 1])
def test_the_exported_model_has_the_recorded_scores(finished: Path, tmp_path: Path, fold: int | None) -> None:
    card = export(
        finished, tmp_path, method="triplet", fold=fold, plugins=(TOY_PLUGIN,), false_accept_rate=0.2
    )
    images, labels = read_test_images(finished)
    vectors = lf.load_embedder(tmp_path).embed(images)
    got = lf.metrics.evaluate(vectors, labels)["map_at_r"]
    store = Store(finished)
    record = store.rerun(store.experiment_record().selection_ids("triplet")[0], 0)
    assert record is not None
    wanted = record.concatenated if fold is None else record.folds[fold]
    assert got == pytest.approx(wanted["map_at_r"], abs=2e-3)  # fused networks differ in the last digits
    assert card.parts == (2 if fold is None else 1)
    assert {score.metric for score in card.scores} == {"precision_at_1", "r_precision", "map_at_r"}
    assert all(score.low is not None and score.low <= score.value for score in card.scores)
    assert card.threshold is not None
    assert card.threshold.false_accept_rate == 0.2


@pytest.mark.parametrize(
    "trunk",
    [
        {"mode": "frozen"},
        {"mode": "tail", "from": "2"},
        {"mode": "norm"},
        {"name": "mlp", "image_size": 16, "width": 8, "mode": "lora", "lora": {"rank": 2}},
    ],
    ids=lambda trunk: trunk["mode"],
)
def test_the_whole_network_is_exported_for_every_trunk_mode(tmp_path: Path, trunk: dict[str, Any]) -> None:
    values = tiny_values() | {"methods": ["triplet"]}
    values["confirm"] = {"reruns": 1}
    if trunk.get("name") == "mlp":
        values["trunk"] = {"in_channels": 1} | trunk
    else:
        values["trunk"] |= trunk
    directory = lf.run(lf.Experiment.build(**values), tmp_path / "runs").path
    export(directory, tmp_path / "model", method="triplet", plugins=(TOY_PLUGIN,))
    images, labels = read_test_images(directory)
    got = lf.metrics.evaluate(lf.load_embedder(tmp_path / "model").embed(images), labels)["map_at_r"]
    store = Store(directory)
    record = store.rerun(store.experiment_record().selection_ids("triplet")[0], 0)
    assert record is not None
    assert got == pytest.approx(record.concatenated["map_at_r"], abs=2e-3)


@pytest.mark.parametrize(
    "trunk",
    [
        {"name": "conv4", "width": 4, "in_channels": 1, "mode": "tail", "from": "2"},
        {"name": "conv4", "width": 4, "in_channels": 1, "mode": "norm"},
        {
            "name": "timm:vit_tiny_patch16_224",
            "img_size": 16,
            "patch_size": 8,
            "depth": 1,
            "in_channels": 1,
            "mode": "lora",
            "lora": {"rank": 2, "targets": ["qkv"]},
        },
    ],
    ids=["tail", "norm", "lora"],
)
def test_a_partly_trained_trunk_is_exported_whole(trunk: dict[str, Any], tmp_path: Path) -> None:
    values = tiny_values() | {"methods": ["triplet"], "trunk": trunk, "search": {"trials": 1}}
    directory = lf.run(lf.Experiment.build(**values), tmp_path / "runs").path
    export(directory, tmp_path / "model", method="triplet", plugins=(TOY_PLUGIN,))
    images, labels = read_test_images(directory)
    got = lf.metrics.evaluate(lf.load_embedder(tmp_path / "model").embed(images), labels)["map_at_r"]
    store = Store(directory)
    record = store.rerun(store.experiment_record().selection_ids("triplet")[0], 0)
    assert record is not None
    assert got == pytest.approx(record.concatenated["map_at_r"], abs=5e-3)  # float16 activations in tail mode


@pytest.mark.parametrize(("fold", "width"), [(None, 16), (0, 8)])
def test_the_threshold_is_calibrated_on_classes_that_no_stand_in_was_trained_on(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fold: int | None, width: int
) -> None:
    given: dict[str, Any] = {}

    def record(embeddings: torch.Tensor, labels: torch.Tensor, **options: Any) -> MatchThreshold:
        given.update(embeddings=embeddings, labels=labels, **options)
        return calibrate_threshold(embeddings, labels, **options)

    monkeypatch.setattr("levelfield.retrieval.embedders.threshold.calibrate_threshold", record)
    options: dict[str, Any] = {"method": "triplet", "plugins": (TOY_PLUGIN,), "false_accept_rate": 0.2}
    card = export(finished, tmp_path, fold=fold, **options)
    folds = [set(given["labels"][given["groups"] == group].tolist()) for group in given["groups"].unique()]
    assert len(folds) == (2 if fold is None else 1)
    assert sum(map(len, folds)) == len(set.union(*folds))  # the validation classes of folds differ
    assert given["embeddings"].shape[1] == width  # two reruns of size 8 stand for two folds
    norms = given["embeddings"].reshape(len(given["embeddings"]), -1, 8).norm(dim=2)
    torch.testing.assert_close(norms, torch.ones_like(norms))
    assert card.threshold is not None
    assert ("2 reruns" in card.threshold.data) == (fold is None)


@pytest.mark.parametrize(
    ("reruns", "words"),
    [(4, ""), (3, "extrapolated from 3; to measure it, set confirm.reruns to 4"), (1, "too strict")],
)
def test_the_card_says_if_there_are_fewer_reruns_than_folds(reruns: int, words: str) -> None:
    labels = torch.arange(25).repeat_interleave(4)
    centers = torch.randn(100, 8, generator=torch.Generator().manual_seed(0))

    def embed_run(run: Any) -> tuple[torch.Tensor, torch.Tensor]:
        fold, rerun = run
        noise = torch.randn(100, 8, generator=torch.Generator().manual_seed(10 * fold + rerun))
        return centers[25 * fold + labels] + 0.6 * noise, 25 * fold + labels

    stand_ins: Any = [[(fold, rerun) for rerun in range(reruns)] for fold in range(4)]
    threshold, notes = _threshold(stand_ins, embed_run, rate=0.1)
    assert threshold is not None and words in "".join(notes) and bool(notes) == bool(words)
    complete: Any = [[(fold, rerun) for rerun in range(4)] for fold in range(4)]
    exact, _ = _threshold(complete, embed_run, rate=0.1)
    assert exact is not None
    if reruns > 1:
        assert threshold.similarity == pytest.approx(exact.similarity, abs=0.03)
    else:
        assert threshold.similarity > exact.similarity + 0.03


def test_from_the_records_to_a_search_answer(finished: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    model, index, image = tmp_path / "model", tmp_path / "index", tmp_path / "image.png"
    arguments = ["export", str(finished), "--method", "contrastive", "-o", str(model)]
    arguments += ["--plugin", str(TOY_PLUGIN), "--false-accept-rate", "0.2"]
    done = runner.invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "a match has a similarity of at least" in done.stdout
    done = runner.invoke(app, ["index", "toy_images", "--model", str(model), "-o", str(index)])
    assert done.exit_code == 0, done.output
    images, labels = read_test_images(finished)
    from PIL import Image

    Image.fromarray(images[0][0].numpy()).save(image)
    answer = lf.Searcher(index).search(image, k=5)
    assert answer.neighbors[0].similarity == pytest.approx(1, abs=1e-3)
    assert answer.neighbors[0].is_match
    assert answer.found
    assert len(labels)


def test_without_a_name_the_best_method_is_exported(finished: Path, tmp_path: Path) -> None:
    card = export(finished, tmp_path, fold=0, plugins=(TOY_PLUGIN,))
    compared = lf.compare(finished)
    assert isinstance(compared, lf.ExperimentResult) and card.method == compared.best[0]


def test_the_card_names_data_and_provenance(finished: Path, tmp_path: Path) -> None:
    export(finished, tmp_path, method="triplet", plugins=(TOY_PLUGIN,))
    card = read_model_card(tmp_path)
    assert card.method == "triplet"
    assert card.data is not None
    assert card.data.name == "toy_images"
    assert card.provenance["experiment"] == "tiny"
    assert len(card.provenance["runs"].split()) == 2


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"method": "tripplet"}, 'did you mean "triplet"'),
        ({"method": "triplet", "rerun": 2}, "there is no rerun 2; choose one from 0 to 1"),
        ({"method": "triplet", "fold": 5}, "there is no fold 5"),
    ],
)
def test_unknown_names_and_numbers_get_one_line(
    finished: Path, tmp_path: Path, options: dict[str, Any], line: str
) -> None:
    with pytest.raises(UsageError, match=line):
        export(finished, tmp_path, plugins=(TOY_PLUGIN,), **options)


def test_a_directory_without_records_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no levelfield experiment"):
        export(tmp_path, tmp_path / "model", method="triplet")
