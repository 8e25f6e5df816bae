"""Tail mode is fine-tuning with frozen lower layers, on cached activations."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import levelfield as lf
from levelfield import losses, models
from levelfield.core.errors import UsageError
from levelfield.data import transforms
from levelfield.protocol import resolve_experiment, run_protocol
from levelfield.records import RunDirectory
from levelfield.train import Resources, RunJob, build_embedder, create_inputs, load_development_view, run_job
from levelfield.train._embed import embed as embed_rows
from levelfield.train.checkpoint import load_best_weights

CONV = {"name": "conv4", "width": 4, "in_channels": 1}
TAIL = CONV | {"mode": "tail", "from": "2"}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def job(tiny: dict[str, Any], directory: Path, **changes: Any) -> RunJob:
    method = {"name": "triplet", "set": {"margin": 0.2}}
    resolved = resolve_experiment(lf.Experiment.build(**{**tiny, "methods": [method], **changes}))
    return RunJob(resolved.run_spec(resolved.methods[0], {}, fold=0, seed=7), resolved.resources, directory)


def test_losses_and_gradients_are_those_of_finetuning_with_frozen_lower_layers(
    tiny: dict[str, Any], tmp_path: Path
) -> None:
    """The same crops give equal results up to float16, the data type of cached activations."""
    work = job(tiny, tmp_path, trunk=TAIL | {"freeze_bn": True})
    view = load_development_view(work.spec, work.resources)
    rows = view.folds[0].train[:12]
    labels = torch.from_numpy(view.dataset.labels[rows])
    tail = build_embedder(work.spec, work.resources)
    (activations,) = create_inputs(view.dataset, work.spec, work.resources, train=True).evaluate([rows])

    whole = models.create_embedder(
        trunk=models.create_trunk("conv4", width=4, in_channels=1), size=8, freeze_bn="statistics"
    )
    whole.head.load_state_dict(tail.head.state_dict())
    for name, parameter in whole.trunk.named_parameters():
        parameter.requires_grad_(name.split(".")[1] in ("2", "3"))
    plain = transforms.create("none", train=False)
    images = plain([view.dataset.images.read(int(row)) for row in rows], torch.Generator())

    def step(embedder: models.Embedder, inputs: Tensor) -> tuple[float, dict[str, Tensor]]:
        value = losses.create("multi_similarity")(embedder.train()(inputs), labels)
        value.backward()
        return value.item(), {name: p.grad for name, p in embedder.named_parameters() if p.grad is not None}

    tail_loss, tail_gradients = step(tail, activations)
    whole_loss, whole_gradients = step(whole, images)
    assert tail_loss == pytest.approx(whole_loss, rel=2e-3)
    assert tail_gradients.keys() == whole_gradients.keys() and len(tail_gradients) == 8
    for name, gradient in whole_gradients.items():
        assert (tail_gradients[name] - gradient).norm() <= 5e-3 * gradient.norm() + 1e-6, name


def test_a_tail_that_begins_at_the_head_is_a_frozen_trunk(tiny: dict[str, Any], tmp_path: Path) -> None:
    head = job(tiny, tmp_path, trunk=TAIL | {"from": "head", "freeze_bn": True}).spec
    frozen = job(tiny, tmp_path, trunk=CONV | {"mode": "frozen"}).spec
    assert head == frozen and head.run_id == frozen.run_id


def test_the_upper_part_is_trained_and_kept_and_the_lower_part_is_neither(
    tiny: dict[str, Any], tmp_path: Path
) -> None:
    work = job(tiny, tmp_path / "run", trunk=TAIL)
    before = copy.deepcopy(build_embedder(work.spec, work.resources).state_dict())
    run_job(work)
    after = load_best_weights(tmp_path / "run")
    assert after.keys() == before.keys()
    assert {name.split(".")[2] for name in after if name.startswith("trunk.")} == {"2", "3"}
    assert all(
        not torch.equal(after[name], before[name]) for name in before if name.endswith((".weight", ".bias"))
    )
    again = build_embedder(work.spec, work.resources).state_dict()
    assert all(torch.equal(again[name], before[name]) for name in before)  # runs do not share trained tensors


def test_tail_and_head_have_learning_rates_of_their_own(tiny: dict[str, Any], tmp_path: Path) -> None:
    slow_tail = {"name": "sgd", "lr": 1e-12, "head_lr": 0.1, "weight_decay": 0.0}
    work = job(tiny, tmp_path / "run", trunk=TAIL | {"freeze_bn": True}, optimizer=slow_tail)
    before = build_embedder(work.spec, work.resources).state_dict()
    run_job(work)
    after = load_best_weights(tmp_path / "run")
    moved = {name: float((after[name] - before[name]).abs().max()) for name in before}
    assert max(value for name, value in moved.items() if name.startswith("trunk.")) < 1e-9
    assert moved["head.projection.weight"] > 1e-6


@pytest.mark.slow
def test_a_whole_experiment_in_tail_mode_opens_the_test_set_only_with_a_permit(
    tiny: dict[str, Any], tmp_path: Path, own_cache: Path
) -> None:
    """Search and selection cache activations of development images only; test images come later."""
    values = {**tiny, "trunk": TAIL, "methods": ["contrastive"], "head": {"size": 8, "init": "pca"}}
    experiment = lf.Experiment.build(**values)
    run_protocol(experiment, tmp_path / "out", search_only=True)
    resolved = resolve_experiment(experiment)
    spec = resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0)
    view = load_development_view(spec, Resources(plugins=resolved.resources.plugins))
    sizes = {file.stat().st_size for file in (own_cache / "features").glob("*/features.f16")}
    values_per_image = 4 * 4 * 4  # of conv4 at width 4 after two of its blocks, on images of 16 x 16
    assert sizes == {len(view.dataset) * values_per_image * 2}
    run_protocol(experiment, tmp_path / "out")
    sizes = {file.stat().st_size for file in (own_cache / "features").glob("*/features.f16")}
    assert sizes == {len(view.dataset) * values_per_image * 2, view.test_images * values_per_image * 2}


@pytest.mark.parametrize(
    ("trunk", "changes", "message"),
    [
        (CONV | {"mode": "tail"}, {}, "tail mode needs `from`"),
        (CONV | {"from": "2"}, {}, "`from` belongs to mode tail, not to finetune"),
        (CONV | {"lora": {"rank": 2}}, {}, "`lora` belongs to mode lora, not to finetune"),
        (TAIL | {"from": "7"}, {}, 'trunk conv4 has no module "7"; choose from 0, 1, 2, 3'),
        (TAIL | {"from": "2.1"}, {}, None),
        (
            TAIL,
            {"transform": {"name": "base", "size": 16, "resize": 16}},
            "trunk.views is 0, but transform base",
        ),
        (CONV | {"mode": "norm", "freeze_bn": "all"}, {}, "trunk.freeze_bn freezes the layers that it would"),
        (CONV | {"mode": "lora"}, {}, "trunk conv4 has no linear layers for mode lora"),
        (CONV, {"head": {"kind": "none", "init": "pca"}}, "head.init pca needs a projection"),
        (CONV, {"head": {"kind": "mlp", "size": 12, "init": "pca"}}, "twice as many hidden units"),
        (CONV, {"training": {"chunk": 4}}, "training.chunk needs trunk.freeze_bn"),
        (
            CONV | {"mode": "frozen"},
            {
                "training": {"chunk": 4},
                "methods": [{"name": "triplet", "set": {"margin": 0.2, "mixup.alpha": 1.0}}],
            },
            "training.chunk cannot be used with mixup, which method triplet has",
        ),
    ],
)
def test_invalid_settings_are_one_clear_line_before_anything_runs(
    trunk: dict[str, Any], changes: dict[str, Any], message: str | None, tiny: dict[str, Any]
) -> None:
    values = {**tiny, "methods": ["triplet"], "trunk": trunk, **changes}
    if message is None:
        resolve_experiment(lf.Experiment.build(**values))
        return
    with pytest.raises(UsageError, match=message) as caught:
        resolve_experiment(lf.Experiment.build(**values))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("init", ["pca", "whitening", "orthogonal"])
@pytest.mark.parametrize("mode", ["finetune", "frozen", "tail"])
def test_a_fitted_head_sees_training_rows_only(
    mode: str, init: str, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from levelfield.train import _head_init

    asked: list[int] = []
    real = embed_rows

    def spy(forward: Any, inputs: Any, rows: Any, **options: Any) -> Tensor:
        asked.extend(rows.tolist())
        return real(forward, inputs, rows, **options)

    monkeypatch.setattr(_head_init, "embed", spy)
    monkeypatch.setattr(_head_init, "_cached_directions", {})
    trunk = {"finetune": CONV, "frozen": CONV | {"mode": "frozen"}, "tail": TAIL}[mode]
    work = job(tiny, tmp_path / "run", trunk=trunk, head={"size": 4, "init": init})
    run_job(work)
    fold = load_development_view(work.spec, work.resources).folds[0]
    assert asked == fold.train.tolist()
    assert not set(asked) & set(fold.validation.tolist())


def test_the_first_measurement_of_a_pca_head_is_that_of_pca(tiny: dict[str, Any], tmp_path: Path) -> None:
    work = job(tiny, tmp_path / "run", trunk=CONV | {"mode": "frozen"}, head={"size": 4, "init": "pca"})
    run_job(work)
    view = load_development_view(work.spec, work.resources)
    fold = view.folds[0]
    inputs = create_inputs(view.dataset, work.spec, work.resources, train=True)
    training, validation = inputs.evaluate([fold.train, fold.validation])
    head = models.pca_head(training, size=4)
    labels = torch.from_numpy(view.dataset.labels[fold.validation])
    expected = lf.metrics.evaluate(head(validation), labels, metrics=("map_at_r",))
    first = RunDirectory(tmp_path / "run").log()[0]
    assert first.epoch == 0
    assert first.scores["map_at_r"] == pytest.approx(expected["map_at_r"], abs=1e-6)


def test_the_sample_of_many_rows_is_the_same_for_every_seed(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from levelfield.train import _head_init

    monkeypatch.setattr(_head_init, "MAX_IMAGES", 5)
    samples = []
    for seed in (1, 2):
        monkeypatch.setattr(_head_init, "_cached_directions", {})
        real = embed_rows

        def embed(forward, inputs, rows, real=real, **options):
            samples.append(rows.tolist())
            return real(forward, inputs, rows, **options)

        monkeypatch.setattr(_head_init, "embed", embed)
        work = job(
            tiny, tmp_path / str(seed), trunk=CONV | {"mode": "frozen"}, head={"size": 4, "init": "pca"}
        )
        run_job(RunJob(work.spec.model_copy(update={"seed": seed}), work.resources, work.directory))
        monkeypatch.setattr(_head_init, "embed", real)
    assert samples[0] == samples[1] and len(samples[0]) == 5
    assert np.unique(samples[0]).size == 5


@pytest.mark.parametrize("augments", [False, True])
def test_a_transform_that_prints_only_its_address_shows_whether_it_augments(
    augments: bool, tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    create = transforms.create

    def closure(name: str, *, train: bool, **options: Any) -> Any:
        plain = create("none", train=train)

        def transform(images: list[Tensor], generator: torch.Generator) -> Tensor:
            made = plain(images, generator)
            drawn = torch.rand((), generator=generator)
            return made.flip(-1) if train and augments and drawn < 0.5 else made

        return transform

    monkeypatch.setattr(transforms, "create", closure)
    experiment = lf.Experiment.build(**{**tiny, "methods": ["triplet"], "trunk": TAIL})
    if augments:
        with pytest.raises(UsageError, match="augments images in training"):
            resolve_experiment(experiment)
    else:
        resolve_experiment(experiment)
