"""Activations at a cut are kept like features: once, checked, resumable, and named by all they depend on."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from levelfield import models
from levelfield.core.errors import RunError
from levelfield.data import Dataset, MemoryImages
from levelfield.models import _feature_file
from levelfield.models.extraction import FeatureExtractor
from levelfield.models.features import FeatureStore, cached_features, feature_identity

COUNT = 20
PIXELS = torch.randint(
    0, 256, (COUNT, 1, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
)
LABELS = np.zeros(COUNT, dtype=np.int64)
DATASET = Dataset("toy", MemoryImages(PIXELS.numpy()), LABELS, ("all",), "fingerprint")


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_feature_file, "SHARD_ROWS", 6)


def lower_part(cut: str = "2", *, seed: int = 0) -> models.LowerPart:
    return models.split_at_cut(models.create_trunk("conv4", in_channels=1, width=4, seed=seed).eval(), cut)[0]


def compute(folder: Path, source: models.LowerPart | None = None, **options: Any) -> FeatureStore:
    return cached_features(folder, source=source or lower_part(), dataset=DATASET, **options)


def shards_computed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    computed = []
    real = FeatureExtractor.features

    def counted(self: FeatureExtractor, rows: Any, load: Any) -> Tensor:
        computed.append(len(rows))
        return real(self, rows, load)

    with monkeypatch.context() as patched:
        patched.setattr(FeatureExtractor, "features", counted)
        compute(folder)
    return len(computed)


def test_the_store_holds_the_activations_in_half_precision(tmp_path: Path) -> None:
    store = compute(tmp_path)
    with torch.inference_mode():
        expected = lower_part()(PIXELS)
    assert store.item == (4, 4, 4) and store.all().dtype == torch.float16
    assert torch.allclose(store.all().float(), expected, rtol=1e-3, atol=1e-4)
    assert store.path.stat().st_size == COUNT * 4 * 4 * 4 * 2


def test_names_tell_cuts_weights_and_whole_features_apart() -> None:
    whole = models.create_embedder(trunk=models.create_trunk("conv4", in_channels=1, width=4))
    found = [
        feature_identity(source, DATASET)
        for source in (lower_part("2"), lower_part("3"), lower_part("2", seed=1), whole)
    ]
    assert len({identity.model_dump_json() for identity in found}) == 4


def test_weights_after_the_cut_make_no_difference() -> None:
    trunk = models.create_trunk("conv4", in_channels=1, width=4)
    before = feature_identity(models.split_at_cut(trunk, "2")[0], DATASET)
    torch.nn.init.zeros_(trunk.network.get_parameter("3.0.weight"))
    assert feature_identity(models.split_at_cut(trunk, "2")[0], DATASET) == before


def test_half_written_and_damaged_shards_are_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = compute(tmp_path).all().clone()
    assert shards_computed(tmp_path, monkeypatch) == 0
    (file,) = tmp_path.glob("*/features.f16")
    with file.open("r+b") as content:
        content.seek(100)
        content.write(b"\xff\xff\xff")
    assert shards_computed(tmp_path, monkeypatch) == 1
    os.truncate(file, 7 * 128)  # one shard whole, the second cut off
    assert shards_computed(tmp_path, monkeypatch) == 3
    assert torch.equal(compute(tmp_path).all(), expected)


def test_a_full_disk_is_one_clear_line_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, writes = os.pwrite, []

    def full(descriptor: int, data: bytes, offset: int) -> int:
        writes.append(offset)
        if len(writes) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data, offset)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(RunError, match=r"No space left on device; free some.* finished work is kept"):
            compute(tmp_path)
    assert shards_computed(tmp_path, monkeypatch) == 2


def test_activations_too_large_for_half_precision_are_one_clear_line(tmp_path: Path) -> None:
    trunk = models.create_trunk("conv4", in_channels=1, width=4).eval()
    torch.nn.init.constant_(trunk.network.get_parameter("1.2.bias"), 1e6)
    with pytest.raises(RunError, match="of image 0 are not finite, or too large for float16"):
        compute(tmp_path, models.split_at_cut(trunk, "2")[0])


def test_a_lower_part_is_quick_by_folding_and_gives_the_same(tmp_path: Path) -> None:
    """BatchNorm is folded inside the traced part too."""
    trunk = models.create_trunk("timm:resnet10t").eval()
    lower, _ = models.split_at_cut(trunk, "layer4")
    images = torch.rand(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    extractor = FeatureExtractor(lower)
    found = extractor.features(np.arange(3), lambda rows: images[torch.as_tensor(rows)])
    with torch.inference_mode():
        expected = lower(images)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert isinstance(extractor._network, torch.nn.Module)
    layers = extractor._network.modules()
    assert not any(isinstance(layer, torch.nn.BatchNorm2d) for layer in layers)


OTHERS: dict[str, dict[str, Any]] = {
    "weights": {"source": lower_part(seed=1)},
    "transform": {"transform": "simple", "transform_options": {"size": 16, "resize": 16}},
    "views": {"transform": "simple", "transform_options": {"size": 16, "resize": 16}, "views": 1},
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_cache_made_with_other_weights_or_another_transform_is_not_used(other: str, tmp_path: Path) -> None:
    """It has its own directory; moved to the new one by hand, it raises a one-line error."""
    wanted, made = compute(tmp_path).path.parent, compute(tmp_path, **OTHERS[other]).path.parent
    assert wanted != made
    before = {file.name: file.read_bytes() for file in made.iterdir() if file.is_file()}
    shutil.rmtree(wanted)
    made.rename(wanted)
    with pytest.raises(RunError, match=r"describes other features") as caught:
        compute(tmp_path)
    assert "\n" not in str(caught.value)
    assert {file.name: file.read_bytes() for file in wanted.iterdir() if file.is_file()} == before
