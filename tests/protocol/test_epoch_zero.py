"""The row "pretrained" is epoch 0 of every method with a fitted head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import levelfield as lf
from levelfield import models
from levelfield.analysis import read_comparison
from levelfield.protocol import resolve_experiment
from levelfield.train import _head_init, build_embedder

SETTINGS = ("separated", "concatenated")


def experiment(tiny: dict[str, Any], folder: Path, *, mode: str, **head: Any) -> dict[str, Any]:
    """Pretrained trunk; the learning rate is too small to change any weight."""
    weights = folder / "weights.safetensors"
    trunk = models.create_trunk("conv4", width=4, in_channels=1, seed=5)
    save_file({name: value.contiguous() for name, value in trunk.network.state_dict().items()}, weights)
    return {
        **tiny,
        "trunk": {**tiny["trunk"], "weights": str(weights), "mode": mode, "freeze_bn": True},
        "head": head,
        "optimizer": {"name": "adam", "lr": 1e-30},
        "methods": ["contrastive"],
        "search": {"trials": 1, "sampler": "random"},
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "head"),
    [
        ("frozen", {"size": 3, "init": "pca"}),
        ("frozen", {"size": 3, "init": "orthogonal"}),
        ("finetune", {"size": 3, "init": "pca"}),
    ],
)
def test_a_method_that_kept_its_start_equals_the_baseline_to_the_last_digit(
    mode: str, head: dict[str, Any], tiny: dict[str, Any], tmp_path: Path
) -> None:
    root = lf.run(experiment(tiny, tmp_path, mode=mode, **head), tmp_path / "out").path
    baseline, kept = read_comparison(root).results
    assert (baseline.method, kept.method) == ("pretrained", "contrastive")
    assert set(kept.best_epochs) == {0}
    for setting in SETTINGS:
        for metric, values in kept.scores[setting].items():
            assert set(values) == set(baseline.scores[setting][metric]), (setting, metric)


def test_a_start_that_depends_on_the_seed_is_scored_for_every_rerun(
    tiny: dict[str, Any], tmp_path: Path
) -> None:
    for head, reruns in (
        ({"size": 3, "init": "pca"}, 1),
        ({"size": 3, "init": "random"}, 1),
        ({"size": 3, "init": "orthogonal"}, 2),
        ({"size": 5000, "init": "pca"}, 2),  # more dimensions than the images span
    ):
        values = experiment(tiny, tmp_path, mode="frozen", **head)
        assert resolve_experiment(lf.Experiment.build(**values)).baseline_reruns == reruns, head


@pytest.mark.parametrize(("init", "same"), [("pca", True), ("whitening", True), ("orthogonal", False)])
def test_copies_of_an_image_leave_no_direction_to_the_seed(
    init: str, same: bool, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The images of a fold may span fewer directions than their number says."""
    values = experiment(tiny, tmp_path, mode="frozen", size=3, init=init)
    resolved = resolve_experiment(lf.Experiment.build(**values))
    weights = []
    for seed in (1, 2):
        spec = resolved.run_spec(resolved.methods[0], {}, fold=0, seed=seed)
        embedder = build_embedder(spec, resolved.resources)
        projection: Any = embedder.head.projection
        copies = models.principal_directions(torch.ones(20, projection.in_features))
        monkeypatch.setattr(_head_init, "_directions", lambda *_, found=copies, **__: found)
        inputs: Any = None
        _head_init.initialize_head(spec, embedder, inputs, np.arange(20), device="cpu")
        weights.append(projection.weight.detach().clone())
    assert torch.equal(*weights) == same
    assert (resolved.baseline_reruns == 1) == same
