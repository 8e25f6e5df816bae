"""One run: its files, early stopping, and the same bits after an interruption."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.one_run import files, job

from levelfield.records import RunDirectory, RunSpec
from levelfield.train import _loop, checkpoint, run_job

CONV = {"name": "conv4", "width": 4, "in_channels": 1}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "accumulate": {
        "training": {"iterations_per_epoch": 5, "max_epochs": 4, "evaluate_every": 1, "accumulate": 2}
    },
    "clip": {"training": {"max_epochs": 4, "iterations_per_epoch": 4, "evaluate_every": 1, "clip_norm": 0.1}},
    "bfloat16": {"training": {"max_epochs": 4, "iterations_per_epoch": 4, "precision": "bfloat16"}},
    "cosine": {"schedule": {"name": "cosine"}},
    "mined": {"method": {"name": "x", "loss": "triplet", "miner": "distance_weighted"}},
    "rho": {"method": {"name": "r_margin"}},
    "mixup": {"method": {"name": "x", "loss": "triplet", "set": {"mixup.alpha": 2.0}}},
    "mixup in layers": {
        "method": {"name": "x", "loss": "triplet", "set": {"mixup.alpha": 2.0, "mixup.layers": "0,2"}}
    },
    "lists of negatives": {
        "method": {
            "name": "x",
            "loss": "triplet",
            "sampler": "neighbor_lists",
            "set": {"sampler.every": 2, "sampler.neighbors": 5, "sampler.negatives": 1},
        }
    },
    "memory": {
        "method": {"name": "x", "loss": "contrastive", "set": {"memory.capacity": 32, "memory.start": 2}}
    },
    "regularized": {"method": {"name": "x", "loss": "npair", "set": {"regularizer.koleo": 0.1}}},
    "a regularizer that learns": {
        "method": {
            "name": "x",
            "loss": "proxy_anchor",
            "set": {
                "regularizer.non_isotropy": 1.0,
                "regularizer.non_isotropy.width": 8,
                "regularizer.non_isotropy.lr": 0.01,
            },
        }
    },
    "virtual classes of a memory": {
        "method": {
            "name": "x",
            "loss": "normalized_softmax",
            "set": {"synthesis.memvir": 2, "synthesis.memvir.gap": 1, "synthesis.memvir.start": 1},
        }
    },
    "synthetic proxies": {
        "method": {"name": "x", "loss": "proxy_anchor", "set": {"synthesis.proxy_synthesis": 1.0}}
    },
    "blended pairs": {
        "method": {
            "name": "x",
            "loss": "contrastive",
            "miner": "pair_margin",
            "set": {"synthesis.metrix": 0.4},
        }
    },
    "branches to learn from": {
        "method": {
            "name": "x",
            "loss": "proxy_anchor",
            "set": {"s2sd.weight": 5.0, "s2sd.width": 8, "s2sd.branches": 2, "s2sd.feature_start": 3},
        }
    },
    "proxies": {"method": {"name": "soft_triple"}},
    "embedded sampler": {"method": {"name": "x", "loss": "triplet", "sampler": "gc"}},
    "frozen": {"trunk": {"name": "conv4", "width": 4, "in_channels": 1, "mode": "frozen", "views": 2}},
    "tail": {"trunk": CONV | {"mode": "tail", "from": "2", "views": 2}},
    "tail with a fitted head": {
        "trunk": CONV | {"mode": "tail", "from": "3"},
        "head": {"size": 8, "init": "pca"},
    },
    "fitted head": {"head": {"size": 8, "init": "whitening"}},
    "norm": {"trunk": CONV | {"mode": "norm"}},
    "bitfit": {"trunk": CONV | {"mode": "bitfit"}},
    "lora": {
        "trunk": {"name": "mlp", "in_channels": 1, "image_size": 16, "mode": "lora", "lora": {"rank": 2}}
    },
    "chunk": {
        "trunk": CONV | {"freeze_bn": True},
        "training": {"max_epochs": 4, "iterations_per_epoch": 4, "evaluate_every": 1, "chunk": 5},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_an_interrupted_run_ends_with_the_same_bits(
    variant: str, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    changes = dict(VARIANTS[variant])
    method = changes.pop("method", None)
    run_job(job(tiny, tmp_path / "undisturbed", method, **changes))

    interrupted = job(tiny, tmp_path / "interrupted", method, **changes)
    saves = [0]
    save_state = checkpoint.save_state

    def fail_after_two(directory: Path, state: dict[str, Any]) -> None:
        save_state(directory, state)
        saves[0] += 1
        if saves[0] == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "save_state", fail_after_two)
        with pytest.raises(KeyboardInterrupt):
            run_job(interrupted)
    run_job(interrupted)
    assert files(tmp_path / "interrupted") == files(tmp_path / "undisturbed")


def test_training_lowers_the_loss(tiny: dict[str, Any], tmp_path: Path) -> None:
    training = {"iterations_per_epoch": 10, "max_epochs": 6, "evaluate_every": 1, "patience": None}
    run_job(job(tiny, tmp_path / "run", training=training))
    losses = [line.loss for line in RunDirectory(tmp_path / "run").log() if line.loss is not None]
    assert losses[-1] < losses[0]


def test_a_diverged_run_is_recorded_with_its_reason(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from levelfield.train._objective import Objective

    def nan(self: Objective, *_: Any) -> Any:
        return torch.tensor(float("nan"), requires_grad=True), torch.zeros(1)

    monkeypatch.setattr(Objective, "forward", nan)
    result = run_job(job(tiny, tmp_path / "run"))
    assert result.status == "diverged"
    assert "loss is nan in epoch 1" in result.reason
    assert RunDirectory(tmp_path / "run").result() == result


def test_a_frozen_trunk_is_not_trained_and_not_stored(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    trunk = {"name": "conv4", "width": 4, "in_channels": 1, "mode": "frozen"}
    run_job(job(tiny, tmp_path / "run", trunk=trunk))
    assert all(not name.startswith("trunk.") for name in checkpoint.load_best_weights(tmp_path / "run"))


def test_the_digest_of_a_run_does_not_depend_on_the_engine(tiny: dict[str, Any], tmp_path: Path) -> None:
    one = job(tiny, tmp_path / "a").spec
    other = job({**tiny, "engine": {"workers": 2, "threads": 2}}, tmp_path / "b").spec
    assert one.run_id == other.run_id
    assert RunSpec.model_validate_json(one.model_dump_json()).run_id == one.run_id


def test_labels_are_renumbered_for_classification_losses() -> None:
    import numpy as np

    dense, count = _loop._dense_labels(np.array([7, 3, 7, 9]))
    assert dense.tolist() == [1, 0, 1, 2] and count == 3


def test_scores_before_training_are_computed_once_for_all_runs_that_start_alike(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_loop, "_starts", {})
    scored: list[int] = []
    score = _loop._Run._score_validation

    def count(run: _loop._Run) -> _loop.Validation:
        scored.append(run.epoch)
        return score(run)

    monkeypatch.setattr(_loop._Run, "_score_validation", count)
    frozen = {"trunk": {**tiny["trunk"], "mode": "frozen"}, "head": {"size": 3, "init": "pca"}}
    first = job(tiny, tmp_path / "first", **frozen)
    again = job(tiny, tmp_path / "again", {"name": "contrastive"}, **frozen)
    metric = first.spec.metric.model_copy(update={"source": "edited"})
    edited = replace(
        first, spec=first.spec.model_copy(update={"metric": metric}), directory=tmp_path / "edited"
    )
    drawn = job(tiny, tmp_path / "drawn", **{**frozen, "head": {"size": 3, "init": "orthogonal"}})
    starts = []
    for each in (first, again, edited, drawn):
        before = scored.count(0)
        run_job(each)
        starts.append(scored.count(0) - before)
    assert starts == [1, 0, 1, 1]
    lines = [RunDirectory(each.directory).log()[0] for each in (first, again, edited)]
    assert lines[0] == lines[1] == lines[2]
