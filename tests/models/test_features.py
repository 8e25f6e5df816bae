"""Features are computed once, survive a kill, and are never believed when damaged."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from levelfield import models
from levelfield.data._dataset import Rows
from levelfield.data.transforms import create
from levelfield.errors import RunError, UsageError
from levelfield.models import _feature_file
from levelfield.models.features import FeatureStore, cached_features, rows_key

COUNT = 20


@dataclass
class CountingImages:
    """Images that remember how often they were read, and can fail."""

    pixels: Tensor
    reads: list[int]
    broken: int | None = None

    def __len__(self) -> int:
        return len(self.pixels)

    def read(self, row: int) -> Tensor:
        if row == self.broken:
            raise KeyboardInterrupt
        self.reads.append(row)
        return self.pixels[row]

    def select(self, rows: Rows) -> CountingImages:
        return replace(self, pixels=self.pixels[torch.as_tensor(rows)])


@dataclass(frozen=True)
class Noise:
    """A random transform."""

    strength: float = 0.1

    def __call__(self, images: Sequence[Tensor], generator: torch.Generator) -> Tensor:
        batch = torch.stack(list(images)) / 255
        return batch + self.strength * torch.rand(batch.shape, generator=generator)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_feature_file, "SHARD_ROWS", 6)


def images(**options: Any) -> CountingImages:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (COUNT, 1, 16, 16), dtype=torch.uint8, generator=generator)
    return CountingImages(pixels, reads=[], **options)


def embedder(seed: int = 0, pooling: str = "avg") -> models.Embedder:
    trunk = models.create_trunk("conv4", in_channels=1, width=4, seed=seed)
    return models.build(trunk=trunk, pooling=pooling)


def compute(folder: Path, source: CountingImages | None = None, **options: Any) -> FeatureStore:
    arguments: dict[str, Any] = {
        "embedder": embedder(),
        "images": images() if source is None else source,
        "dataset": "fingerprint",
        "part": "all",
        "transform": create("none", train=False),
    }
    return cached_features(folder, **(arguments | options))


def rows_read(folder: Path, **options: Any) -> set[int]:
    source = images()
    compute(folder, source, **options)
    return set(source.reads)


def file_of(folder: Path) -> Path:
    (file,) = folder.glob("*/features.f32")
    return file


def test_the_store_holds_the_features_of_the_embedder(tmp_path: Path) -> None:
    store = compute(tmp_path)
    with torch.inference_mode():
        expected = embedder().eval().features(images().pixels)
    assert torch.allclose(store.all(), expected, atol=1e-5)
    assert (len(store), store.num_features, store.views) == (COUNT, 16, 0)
    rows = np.array([19, 3, 3, 0])
    assert torch.equal(store.batch(rows), store.all()[torch.as_tensor(rows)])


def test_a_second_call_reads_no_image(tmp_path: Path) -> None:
    assert rows_read(tmp_path) == set(range(COUNT))
    assert rows_read(tmp_path) == set()


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "other"},
        {"part": "test"},
        {"embedder": embedder(seed=1)},
        {"embedder": embedder(pooling="max")},
        {"transform": Noise(0.0)},
    ],
)
def test_whatever_features_depend_on_makes_new_ones(tmp_path: Path, change: dict[str, Any]) -> None:
    compute(tmp_path)
    assert rows_read(tmp_path, **change) == set(range(COUNT))
    assert rows_read(tmp_path) == set()


def test_a_kill_loses_only_the_shard_under_way(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        compute(tmp_path, images(broken=13))
    assert rows_read(tmp_path) == set(range(12, COUNT))
    assert torch.equal(compute(tmp_path).all(), compute(tmp_path / "fresh").all())


@pytest.mark.parametrize("place", [0, 700, -1])
def test_a_damaged_shard_is_computed_again(tmp_path: Path, place: int) -> None:
    expected = compute(tmp_path).all().clone()
    file = file_of(tmp_path)
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)
    shard = (place % len(content)) // (16 * 4) // 6
    assert rows_read(tmp_path) == set(range(6 * shard, min(6 * shard + 6, COUNT)))
    assert torch.equal(compute(tmp_path).all(), expected)


@pytest.mark.parametrize("size", [0, 500])
def test_a_truncated_file_is_completed(tmp_path: Path, size: int) -> None:
    expected = compute(tmp_path).all().clone()
    file_of(tmp_path).write_bytes(file_of(tmp_path).read_bytes()[:size])
    assert torch.equal(compute(tmp_path).all(), expected)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"sha256": 3}'])
def test_a_damaged_manifest_is_not_believed(tmp_path: Path, content: str) -> None:
    expected = compute(tmp_path).all().clone()
    file_of(tmp_path).with_name("manifest.json").write_text(content)
    assert rows_read(tmp_path) == set(range(COUNT))
    assert torch.equal(compute(tmp_path).all(), expected)


def test_views_differ_from_each_other_and_leave_view_0_as_it_was(tmp_path: Path) -> None:
    store = compute(tmp_path, augment=Noise(), views=2)
    assert store.views == 2
    assert torch.equal(store.all(0), compute(tmp_path).all(0))
    assert not torch.allclose(store.all(0), store.all(1))
    assert not torch.allclose(store.all(1), store.all(2))
    rows = np.array([4, 1])
    assert torch.equal(store.batch(rows, view=2), store.all(2)[torch.as_tensor(rows)])


def test_views_are_the_same_after_a_kill_and_another_with_another_seed(tmp_path: Path) -> None:
    options: dict[str, Any] = {"augment": Noise(), "views": 1}
    whole = compute(tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        compute(tmp_path / "killed", images(broken=13), **options)
    assert torch.equal(compute(tmp_path / "killed", **options).all(1), whole.all(1))
    assert not torch.equal(compute(tmp_path / "whole", seed=1, **options).all(1), whole.all(1))


def test_progress_counts_every_view_and_what_is_there_already(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    options: dict[str, Any] = {"augment": Noise(), "views": 1, "progress": lambda *at: seen.append(at)}
    compute(tmp_path, **options)
    assert (seen[0], seen[-1]) == ((0, 40), (40, 40))
    seen.clear()
    compute(tmp_path, **options)
    assert seen == [(40, 40)]


def test_a_store_can_be_sent_to_another_process(tmp_path: Path) -> None:
    store = compute(tmp_path)
    sent = pickle.dumps(store)
    assert len(sent) < 1000
    assert torch.equal(pickle.loads(sent).all(), store.all())


def test_writing_to_features_does_not_reach_the_file(tmp_path: Path) -> None:
    store = compute(tmp_path)
    store.all().zero_()
    assert compute(tmp_path).all().abs().sum() > 0


def test_features_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    model = embedder()
    model.trunk.network[3][2].weight.data.fill_(float("inf"))
    with pytest.raises(RunError, match="not finite for image 0"):
        compute(tmp_path, embedder=model)


def test_a_transform_must_say_what_it_does(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not say what it does"):
        compute(tmp_path, transform=lambda images, generator: torch.stack(images))


@pytest.mark.parametrize("options", [{"views": 1}, {"augment": Noise()}, {"augment": Noise(), "views": -1}])
def test_views_and_their_transform_come_together(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="views"):
        compute(tmp_path, **options)


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write"):
        compute(tmp_path / "file")


def test_a_full_disk_is_one_clear_line_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, writes = os.pwrite, []

    def full(descriptor: int, data: bytes, offset: int) -> int:
        writes.append(offset)
        if len(writes) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(RunError, match=r"No space left on device; make room.* finished work is kept"):
        compute(tmp_path)
    assert rows_read(tmp_path) == set(range(12, COUNT))


def test_no_images_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no images"):
        compute(tmp_path, images().select(np.array([], dtype=np.int64)))


def test_rows_key_sees_order_and_content() -> None:
    keys = {rows_key(np.array(rows)) for rows in ([0, 1], [1, 0], [0, 1, 2])}
    assert len(keys) == 3
