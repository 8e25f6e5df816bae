"""Features are computed once, survive a kill, and are never believed when damaged."""

from __future__ import annotations

import errno
import json
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
from levelfield.core.errors import RunError, UsageError
from levelfield.data import Dataset, Rows, transforms
from levelfield.models import _feature_file
from levelfield.models.features import FeatureStore, cached_features, feature_identity

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

    strength: float

    def __call__(self, images: Sequence[Tensor], generator: torch.Generator) -> Tensor:
        batch = torch.stack(list(images)) / 255
        return batch + self.strength * torch.rand(batch.shape, generator=generator)


@transforms.register("test_noise")
def noise(*, train: bool, strength: float = 0.1) -> Noise:
    """Noise in training, none in evaluation."""
    return Noise(strength if train else 0.0)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_feature_file, "SHARD_ROWS", 6)


def images(**options: Any) -> CountingImages:
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (COUNT, 1, 16, 16), dtype=torch.uint8, generator=generator)
    return CountingImages(pixels, reads=[], **options)


def embedder(seed: int = 0, pooling: str = "avg") -> models.Embedder:
    trunk = models.create_trunk("conv4", in_channels=1, width=4, seed=seed)
    return models.create_embedder(trunk=trunk, pooling=pooling)


def dataset_of(source: CountingImages, fingerprint: str = "fingerprint") -> Dataset:
    return Dataset("counted", source, np.zeros(len(source), dtype=np.int64), ("all",), fingerprint)


def compute(folder: Path, counting: CountingImages | None = None, **options: Any) -> FeatureStore:
    rows = options.pop("rows", None)
    dataset = dataset_of(
        images() if counting is None else counting, options.pop("fingerprint", "fingerprint")
    )
    dataset = dataset if rows is None else dataset.select(np.array(rows))
    source = options.pop("source", None)
    return cached_features(
        folder, source=embedder() if source is None else source, dataset=dataset, **options
    )


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
    assert (len(store), store.item, store.views) == (COUNT, (16,), 0)
    rows = np.array([19, 3, 3, 0])
    assert torch.equal(store.batch(rows), store.all()[torch.as_tensor(rows)])


def test_a_second_call_reads_no_image(tmp_path: Path) -> None:
    assert rows_read(tmp_path) == set(range(COUNT))
    assert rows_read(tmp_path) == set()


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "other"},
        {"rows": [*range(1, COUNT), 0]},
        {"source": embedder(seed=1)},
        {"source": embedder(pooling="max")},
        {"transform": "test_noise"},
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
    store = compute(tmp_path, transform="test_noise", views=2)
    assert store.views == 2
    assert torch.equal(store.all(0), compute(tmp_path, transform="test_noise").all(0))
    assert not torch.allclose(store.all(0), store.all(1))
    assert not torch.allclose(store.all(1), store.all(2))
    rows = np.array([4, 1])
    assert torch.equal(store.batch(rows, view=2), store.all(2)[torch.as_tensor(rows)])


def test_views_are_the_same_after_a_kill_and_another_with_another_seed(tmp_path: Path) -> None:
    options: dict[str, Any] = {"transform": "test_noise", "views": 1}
    whole = compute(tmp_path / "whole", **options)
    with pytest.raises(KeyboardInterrupt):
        compute(tmp_path / "killed", images(broken=13), **options)
    assert torch.equal(compute(tmp_path / "killed", **options).all(1), whole.all(1))
    assert not torch.equal(compute(tmp_path / "whole", seed=1, **options).all(1), whole.all(1))


def test_progress_counts_every_view_and_what_is_there_already(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    options: dict[str, Any] = {"transform": "test_noise", "views": 1, "progress": lambda *at: seen.append(at)}
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
    model.trunk.network.get_parameter("3.2.weight").data.fill_(float("inf"))
    with pytest.raises(RunError, match="features of image 0 are not finite"):
        compute(tmp_path, source=model)


def test_a_trunk_must_say_how_it_was_made(tmp_path: Path) -> None:
    model = embedder()
    model.trunk.made_from = None
    with pytest.raises(UsageError, match=r"not created by levelfield\.models\.create_trunk"):
        compute(tmp_path, source=model)


def test_a_negative_number_of_views_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="views is -1"):
        compute(tmp_path, views=-1)


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
    with pytest.raises(RunError, match=r"No space left on device; free some space.* finished work is kept"):
        compute(tmp_path)
    assert rows_read(tmp_path) == set(range(12, COUNT))


def test_no_images_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no images"):
        compute(tmp_path, images().select(np.array([], dtype=np.int64)))


def test_parts_of_a_dataset_never_share_features(tmp_path: Path) -> None:
    """Only the row numbers tell two test parts apart: same dataset, same count, other images."""
    for rows in ([0, 1, 2], [0, 2, 1], [3, 4, 5], [0, 1], [5]):
        assert torch.equal(
            compute(tmp_path, rows=rows).all(), compute(tmp_path / "alone" / str(rows), rows=rows).all()
        )


def test_a_part_of_a_part_is_named_by_the_rows_of_the_whole() -> None:
    whole = dataset_of(images())
    one = whole.select(np.arange(10)).select(np.array([7, 3]))
    other = whole.select(np.array([3, 7])).select(np.array([1, 0]))
    assert feature_identity(embedder(), one) == feature_identity(embedder(), other)
    assert feature_identity(embedder(), one) != feature_identity(embedder(), whole.select(np.array([1, 0])))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"act_layer": "silu"}, {"output_stride": 8}])
def test_options_of_a_trunk_that_leave_its_weights_alone_make_new_features(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """Activation and stride are in no tensor: the weights' hash alone does not see them."""

    def features(folder: Path, **chosen: Any) -> Tensor:
        trunk = models.create_trunk("timm:resnet10t", in_channels=1, **chosen)
        return compute(folder, source=models.create_embedder(trunk=trunk)).all().clone()

    plain = features(tmp_path)
    changed = features(tmp_path, **options)
    assert torch.equal(changed, features(tmp_path / "alone", **options))
    assert not torch.equal(plain, changed)


def test_a_running_process_keeps_the_features_that_it_has_mapped(tmp_path: Path) -> None:
    """Whatever is computed next to them, or again after its manifest was lost."""
    store = compute(tmp_path)
    before, inode = store.all().clone(), store.path.stat().st_ino
    compute(tmp_path, rows=[1, 2, 3])
    assert torch.equal(store.all(), before)
    assert store.path.stat().st_ino == inode
    store.path.with_name("manifest.json").unlink()
    compute(tmp_path)
    assert store.path.stat().st_ino != inode, "a new file takes the name, the mapped one is left alone"
    assert torch.equal(store.all(), before)


def test_a_folder_about_other_features_is_refused(tmp_path: Path) -> None:
    manifest = compute(tmp_path).path.with_name("manifest.json")
    content = json.loads(manifest.read_text())
    content["shape"]["rows"] += 1
    manifest.write_text(json.dumps(content))
    with pytest.raises(RunError, match=r"manifest\.json describes other features"):
        compute(tmp_path)


def test_a_file_cut_short_after_it_was_checked_is_one_clear_line(tmp_path: Path) -> None:
    """Reading beyond the end of a mapped file would end the process without a word."""
    sent = pickle.dumps(compute(tmp_path))
    file = file_of(tmp_path)
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(RunError, match=r"features\.f32 has 1276 of 1280 bytes"):
        pickle.loads(sent)
