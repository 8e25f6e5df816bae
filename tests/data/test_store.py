"""The image store: same images, same results, whatever happens while it is being prepared."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import mmap
import multiprocessing
import os
import pickle
import resource
import signal
import threading
import time
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.oracles.images import NumberedImages, dataset
from torch import Tensor

from levelfield.core.errors import RunError, UsageError
from levelfield.data import Dataset, store, transforms
from levelfield.data.store import _decode, _writer
from levelfield.data.transforms._resample import resize_shorter


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir())}


def reads(data: Dataset) -> list[int]:
    """Return the rows that were read so far."""
    assert isinstance(data.images, NumberedImages)
    return data.images.reads


def load_stored(
    data: Dataset, directory: Path, *, resize: int | None = 8
) -> tuple[Dataset, store.PackedImages]:
    """Return a dataset from its store, and its images."""
    found = store.load_from_store(data, directory, resize=resize)
    assert found is not None and isinstance(found.images, store.PackedImages)
    return found, found.images


def assert_same(images, data: Dataset, *, resize: int | None = 8, rows=None) -> None:
    for place, row in enumerate(range(len(data)) if rows is None else rows):
        original = data.images.read(row)
        expected = original if resize is None else resize_shorter(original, resize)
        assert torch.equal(images.read(place), expected)


@pytest.mark.parametrize("resize", [8, None])
def test_the_store_holds_every_image_after_the_first_resize(tmp_path, resize):
    data = dataset()
    store.prepare(data, tmp_path, resize=resize)
    prepared, images = load_stored(data, tmp_path, resize=resize)
    assert_same(images, data, resize=resize)
    assert len(images) == len(data)
    assert prepared.fingerprint == data.fingerprint
    assert images.find_damaged() == []


def test_a_finished_store_is_not_prepared_again(tmp_path):
    data = dataset()
    path = store.prepare(data, tmp_path, resize=8)
    before = files(path)
    reads(data).clear()
    seen = []
    assert store.prepare(data, tmp_path, resize=8, progress=lambda *at: seen.append(at)) == path
    assert reads(data) == []
    assert seen == [(12, 12)]
    assert files(path) == before


def test_other_data_and_other_resizes_have_other_stores(tmp_path):
    one = store.prepare(dataset(12), tmp_path, resize=8)
    two = store.prepare(dataset(12), tmp_path, resize=9)
    three = store.prepare(dataset(13), tmp_path, resize=8)
    assert len({one, two, three}) == 3
    assert store.load_from_store(dataset(11), tmp_path, resize=8) is None


def test_an_image_that_was_read_is_the_callers_own(tmp_path):
    path = store.prepare(dataset(), tmp_path, resize=8)
    images = store.PackedImages.open(path)
    images.read(0).zero_()
    assert_same(images, dataset())


def test_a_selection_holds_only_its_rows(tmp_path):
    images = store.PackedImages.open(store.prepare(dataset(), tmp_path, resize=8))
    some = images.select(np.array([7, 2]))
    assert len(some) == 2
    assert_same(some, dataset(), rows=[7, 2])
    with pytest.raises(IndexError):
        some.read(2)
    assert_same(some.select(np.array([1])), dataset(), rows=[2])
    assert some.read(0).untyped_storage().nbytes() == some.read(0).numel()


def reachable_bytes(root: object) -> set[bytes]:
    """Every array, text and number in ``root`` and in what it refers to, as bytes."""
    seen, queue, contents = set(), [root], set()
    while queue:
        each = queue.pop()
        if id(each) in seen or isinstance(each, type | types.ModuleType | types.FunctionType):
            continue
        seen.add(id(each))
        if isinstance(each, np.ndarray):
            contents.add(each.tobytes())
            queue.append(each.base)
        elif isinstance(each, bytes | bytearray | memoryview | mmap.mmap):
            contents.add(bytes(each))
        queue += gc.get_referents(each)
    return contents


def test_the_development_view_of_a_store_holds_nothing_of_the_test_images(tmp_path):
    """It used to map the whole file, test pixels included."""
    data = dataset()
    store.prepare(data, tmp_path, resize=8)
    development, test = np.arange(6), np.arange(6, 12)
    whole, images = load_stored(data, tmp_path)
    test_pixels = [images.read(int(row)).permute(1, 2, 0).numpy().tobytes() for row in test]
    offsets = images._index["offset"][test].tolist()
    view = whole.select(development)
    assert isinstance(view.images, store.PackedImages)
    for row in range(len(view)):
        view.images.read(row)
    contents = reachable_bytes(view.images)
    assert not [row for row in range(6) if any(test_pixels[row] in held for held in contents)]
    assert not set(offsets) & set(view.images._index["offset"].tolist())
    with pytest.raises(IndexError):
        view.images.read(6)


@pytest.mark.parametrize("damage", ["cut", "removed"])
def test_a_store_that_is_damaged_while_it_is_used_is_named(tmp_path, damage):
    path = store.prepare(dataset(), tmp_path, resize=8)
    images = store.PackedImages.open(path)
    if damage == "cut":
        os.truncate(path / "images.bin", (path / "images.bin").stat().st_size - 1)
    else:
        (path / "images.bin").unlink()
    with pytest.raises(RunError, match=r"image store .* is damaged: images\.bin .*; delete it and prepare"):
        images.read(11)


def test_images_can_be_sent_to_another_process(tmp_path):
    images = store.PackedImages.open(store.prepare(dataset(), tmp_path, resize=8))
    images.read(0)
    sent = pickle.dumps(images)
    assert len(sent) < 4000, "the index travels, the pixels do not"
    assert_same(pickle.loads(sent), dataset())


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", ["mlrc", "simple", "red", "base", "big", "adv"])
def test_a_store_changes_no_bit_of_a_transforms_result(tmp_path, name, train):
    data = dataset(4)
    transform = transforms.create(name, train=train, size=6, resize=8)
    store.prepare(data, tmp_path, resize=8)
    store.prepare(data, tmp_path, resize=None)
    served = store.use_store(data, transform, directory=tmp_path)
    assert isinstance(served.images, store.PackedImages)
    batches = [
        transform([source.read(row) for row in range(4)], torch.Generator().manual_seed(1))
        for source in (data.images, served.images)
    ]
    assert torch.equal(*batches)


def test_a_store_that_would_change_bits_is_not_used(tmp_path):
    data = dataset()
    train, evaluation = (transforms.create("base", train=train, size=6, resize=8) for train in (True, False))
    assert store.use_store(data, evaluation, directory=tmp_path) is data
    store.prepare(data, tmp_path, resize=8)
    assert store.use_store(data, train, directory=tmp_path) is data
    assert store.use_store(data, train, evaluation, directory=tmp_path) is data
    assert store.use_store(data, evaluation, directory=tmp_path).images is not data.images
    store.prepare(data, tmp_path, resize=None)
    assert isinstance(store.use_store(data, train, evaluation, directory=tmp_path).images, store.PackedImages)


def test_processes_make_the_same_bytes_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr(_decode, "START_METHOD", "fork")  # quicker to start
    data = dataset(100)
    one = store.prepare(data, tmp_path / "one", resize=8)
    many = store.prepare(data, tmp_path / "many", resize=8, workers=2)
    assert files(one) == files(many)


def test_images_that_cannot_be_sent_are_decoded_here(tmp_path):
    data = dataset(100)
    data.images.lock = threading.Lock()  # type: ignore[attr-defined]  # it makes pickling fail
    store.prepare(data, tmp_path, resize=8, workers=2)
    assert len(reads(data)) == 100


class Deadly(NumberedImages):
    """Kills the process that reads row 70, unless it is this one."""

    def read(self, row: int) -> Tensor:
        if row == 70 and multiprocessing.parent_process() is not None:
            os._exit(1)
        return super().read(row)


def test_a_worker_that_dies_is_reported_and_can_be_done_without(tmp_path, monkeypatch):
    monkeypatch.setattr(_decode, "START_METHOD", "fork")
    data = dataclasses.replace(dataset(100), images=Deadly(list(range(100))))
    with pytest.raises(RunError, match=r"a decoding process died.*prepare again with workers=1"):
        store.prepare(data, tmp_path, resize=8, workers=2)
    path = store.prepare(data, tmp_path, resize=8)
    assert_same(store.PackedImages.open(path), data)


# Stopped on the way


class StopError(Exception):
    pass


@settings(max_examples=15, deadline=None)
@given(stops=st.lists(st.integers(0, 12), max_size=4))
def test_stopped_anywhere_it_goes_on_and_ends_with_the_same_bytes(tmp_path_factory, stops):
    undisturbed = store.prepare(dataset(), tmp_path_factory.mktemp("whole"), resize=8)
    directory, data = tmp_path_factory.mktemp("stopped"), dataset()
    for stop in stops:
        start = len(reads(data))

        def at(done: int, total: int, start: int = start, stop: int = stop) -> None:
            if len(reads(data)) - start >= stop:
                raise StopError

        with contextlib.suppress(StopError):
            store.prepare(data, directory, resize=8, progress=at)
    path = store.prepare(data, directory, resize=8)
    assert files(path) == files(undisturbed)
    assert sorted(reads(data)) == list(range(12)), "nothing is decoded twice"


def test_an_unfinished_store_is_not_found(tmp_path):
    def stop(done: int, total: int) -> None:
        assert store.load_from_store(dataset(), tmp_path, resize=8) is None
        if done == 7:
            raise StopError

    with pytest.raises(StopError):
        store.prepare(dataset(), tmp_path, resize=8, progress=stop)
    assert store.load_from_store(dataset(), tmp_path, resize=8) is None


@settings(max_examples=20, deadline=None)
@example(data_cut=3336, index_cut=29, junk=b"\x00\x00\x00")  # a record whose last bytes are zeros
@given(data_cut=st.integers(0, 20000), index_cut=st.integers(0, 12 * 32), junk=st.binary(max_size=80))
def test_whatever_a_power_cut_leaves_is_taken_up(tmp_path_factory, data_cut, index_cut, junk):
    """Torn tails, pixels without a record, records without pixels, zeros where a record should be."""
    whole = store.prepare(dataset(), tmp_path_factory.mktemp("whole"), resize=8)
    directory = tmp_path_factory.mktemp("torn")
    partial = directory / f"{whole.name}.partial"
    partial.mkdir()
    (partial / "images.bin").write_bytes(files(whole)["images.bin"][:data_cut] + junk)
    (partial / "index.bin").write_bytes(files(whole)["index.bin"][:index_cut] + bytes(len(junk)))
    path = store.prepare(dataset(), directory, resize=8)
    images = store.PackedImages.open(path)
    assert not images.find_damaged()
    assert_same(images, dataset())


@pytest.mark.slow
def test_a_killed_process_leaves_no_workers_and_loses_nothing_committed(tmp_path, monkeypatch):
    monkeypatch.setattr(_writer, "COMMIT_SECONDS", 0.0)
    child = multiprocessing.get_context("fork").Process(target=prepare_slowly, args=(tmp_path,))
    child.start()
    index = store.store_path(tmp_path, name="images", fingerprint="images of 400", resize=8)
    index = index.with_name(index.name + ".partial") / "index.bin"
    while not (index.exists() and index.stat().st_size > 40 * 32):
        assert child.is_alive()
        time.sleep(0.02)
    assert child.pid is not None
    workers = children_of(child.pid)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    kept = index.stat().st_size // 32
    data = dataset(400)
    path = store.prepare(data, tmp_path, resize=8)
    assert 0 < len(reads(data)) == 400 - kept
    assert_same(store.PackedImages.open(path), data)
    deadline = time.monotonic() + 120
    while any(is_running(worker) for worker in workers):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)


def prepare_slowly(directory: Path) -> None:
    store.prepare(dataset(400, pause=0.01), directory, resize=8, workers=2)


def children_of(pid: int) -> list[int]:
    """Empty where the system does not tell."""
    return [
        int(child)
        for file in Path(f"/proc/{pid}/task").glob("*/children")
        for child in file.read_text().split()
    ]


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def test_two_processes_do_not_prepare_the_same_store(tmp_path):
    data = dataset()

    def meanwhile(done: int, total: int) -> None:
        if done == 5:
            with pytest.raises(RunError, match="another process"):
                store.prepare(dataset(), tmp_path, resize=8)

    store.prepare(data, tmp_path, resize=8, progress=meanwhile)
    assert_same(load_stored(data, tmp_path)[1], data)


# Unreadable images


def test_unreadable_images_are_named_and_refused_and_the_rest_is_kept(tmp_path):
    fixed = tmp_path / "fixed"
    data = dataset(broken=(3, 8), fixed=fixed)
    with pytest.raises(
        store.UnreadableImagesError, match=r"2 of 12 .*row 3: images/3.jpg is truncated"
    ) as refused:
        store.prepare(data, tmp_path, resize=8)
    assert [row for row, _ in refused.value.unreadable] == [3, 8]
    assert store.load_from_store(data, tmp_path, resize=8) is None
    fixed.touch()
    reads(data).clear()
    store.prepare(data, tmp_path, resize=8)
    assert reads(data) == [3, 8]
    assert_same(load_stored(data, tmp_path)[1], data)


def test_unreadable_images_can_be_skipped_and_the_dataset_says_so(tmp_path):
    data = dataset(broken=(3, 8))
    store.prepare(data, tmp_path, resize=8, unreadable="skip")
    kept, images = load_stored(data, tmp_path)
    rows = [row for row in range(12) if row not in (3, 8)]
    assert_same(images, dataset(), rows=rows)
    assert kept.labels.tolist() == data.labels[rows].tolist()
    assert kept.is_test is not None and data.is_test is not None
    assert kept.is_test.tolist() == data.is_test[rows].tolist()
    assert kept.notes == ("2 unreadable images were skipped",)
    assert kept.fingerprint != data.fingerprint


def test_skipped_images_are_taken_in_once_they_are_fixed(tmp_path):
    fixed = tmp_path / "fixed"
    data = dataset(broken=(3,), fixed=fixed)
    path = store.prepare(data, tmp_path, resize=8, unreadable="skip")
    with pytest.raises(store.UnreadableImagesError):
        store.prepare(data, tmp_path, resize=8)
    assert path.exists(), "a refusal takes nothing away"
    assert len(store.PackedImages.open(path)) == 11
    fixed.touch()
    store.prepare(data, tmp_path, resize=8)
    assert_same(store.PackedImages.open(path), data)


def test_a_dataset_of_which_nothing_can_be_read_is_refused_even_when_skipping(tmp_path):
    with pytest.raises(store.UnreadableImagesError, match="3 of 3"):
        store.prepare(dataset(3, broken=(0, 1, 2)), tmp_path, unreadable="skip")


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (torch.zeros(3, 4, 4), "not uint8"),
        (torch.zeros(4, 4, 4, dtype=torch.uint8), "4, 4, 4"),
        (torch.zeros(3, 0, 4, dtype=torch.uint8), "0, 4"),
        (torch.zeros(3, 1, 5000, dtype=torch.uint8), "too narrow"),
    ],
)
def test_images_that_no_store_could_hold_are_unreadable(image, reason):
    class One(NumberedImages):
        def read(self, row: int) -> Tensor:
            return image

    assert reason in _decode.decode_row(One([0]), 0, 256)


# Disks and damage


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path):
    """The limit of a file's size stands for the end of the disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(RunError, match=r"^cannot write the image store .* prepared images are kept.*$"):
            store.prepare(dataset(), tmp_path, resize=8)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    data = dataset()
    path = store.prepare(data, tmp_path, resize=8)
    assert 0 < len(reads(data)) < 12
    assert_same(store.PackedImages.open(path), data)


def test_a_directory_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"cannot write the image store.*LEVELFIELD_CACHE"):
        store.prepare(dataset(), tmp_path / "file" / "below")


@pytest.mark.parametrize("name", ["images.bin", "index.bin", "store.json"])
@pytest.mark.parametrize("harm", ["delete", "truncate"])
def test_a_damaged_store_is_refused(tmp_path, name, harm):
    data = dataset()
    path = store.prepare(data, tmp_path, resize=8)
    if harm == "delete":
        (path / name).unlink()
    else:
        (path / name).write_bytes((path / name).read_bytes()[:-1])
    for use in (store.load_from_store, store.prepare):
        with pytest.raises(RunError, match=r"damaged.*delete it and prepare it again"):
            use(data, tmp_path, resize=8)


def test_a_store_of_another_format_is_refused(tmp_path):
    data = dataset()
    manifest = store.prepare(data, tmp_path, resize=8) / "store.json"
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(RunError, match="format version is 2"):
        store.load_from_store(data, tmp_path, resize=8)


def test_a_flipped_bit_is_found_by_its_checksum(tmp_path):
    path = store.prepare(dataset(), tmp_path, resize=8)
    pixels = bytearray((path / "images.bin").read_bytes())
    pixels[-1] ^= 1
    (path / "images.bin").write_bytes(pixels)
    assert store.PackedImages.open(path).find_damaged() == [11]


def test_bad_requests_are_refused(tmp_path):
    with pytest.raises(UsageError, match="resize"):
        store.prepare(dataset(), tmp_path, resize=0)
    with pytest.raises(UsageError, match="no images"):
        store.prepare(dataset(0), tmp_path)
