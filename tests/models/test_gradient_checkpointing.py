"""Activations computed again in the backward pass: the same gradients, less memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.one_run import files, job

import levelfield as lf
from levelfield import models
from levelfield.core.errors import UsageError
from levelfield.protocol import resolve_experiment
from levelfield.train import run_job

VIT = {"name": "timm:test_vit", "img_size": 16, "patch_size": 4, "in_channels": 1}


def step(*, recompute: bool) -> tuple[dict[str, torch.Tensor], int]:
    """The gradients of one step, and the bytes that the forward pass kept for the backward pass."""
    trunk = models.create_trunk("timm:test_vit", img_size=32)
    if recompute:
        models.enable_gradient_checkpointing(trunk)
    embedder = models.create_embedder(trunk=trunk, size=8)
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        value = embedder(images).square()[:, 0].sum()
    value.backward()
    parameters = dict(embedder.named_parameters())
    return {name: p.grad for name, p in parameters.items() if p.grad is not None}, sum(kept.values())


def test_gradients_have_the_same_bits_and_less_is_kept() -> None:
    (plain, much), (again, little) = step(recompute=False), step(recompute=True)
    assert plain.keys() == again.keys() and len(plain) > 10
    assert all(torch.equal(plain[name], again[name]) for name in plain)
    assert little < much / 1.5


@pytest.mark.slow
def test_a_run_has_the_same_name_and_the_same_bits(tiny: dict[str, Any], tmp_path: Path) -> None:
    dropout = VIT | {"proj_drop_rate": 0.2}  # the second pass must draw what the first drew
    changes = {"trunk": dropout}
    jobs = [
        job(tiny, tmp_path / str(recompute), engine={"workers": 0, "recompute": recompute}, **changes)
        for recompute in (False, True)
    ]
    assert jobs[0].spec.run_id == jobs[1].spec.run_id
    for each in jobs:
        run_job(each)
    assert files(tmp_path / "False") == files(tmp_path / "True")


@pytest.mark.parametrize(
    ("trunk", "message"),
    [
        ({"name": "conv4", "in_channels": 1}, "^engine.recompute: trunk conv4 does not support .*chunk"),
        ({"name": "timm:resnet10t", "in_channels": 1}, "^engine.recompute needs trunk.freeze_bn"),
    ],
)
def test_what_cannot_be_is_one_clear_line_before_anything_runs(
    trunk: dict[str, Any], message: str, tiny: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match=message):
        resolve_experiment(lf.Experiment.build(**{**tiny, "trunk": trunk, "engine": {"recompute": True}}))
