"""Replaced images are noticed, and unchanged ones are hashed once."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.oracles import layouts

from levelfield.core.hashing import report_hashing
from levelfield.data import ImageError, _content, load, store
from levelfield.data._content import hash_files


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))


def write_bmp(file: Path, value: int) -> None:
    """Write an image whose size on disk does not depend on its pixels."""
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (value, value, value)).save(file)


def replace_in_place(file: Path, value: int) -> None:
    """Replace an image by one of the same size, and set the old time."""
    before = file.stat()
    write_bmp(file, value)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def age(*files: Path) -> None:
    """Make files so old that their digests are remembered, as far as a test can: the status time stays."""
    for file in files:
        os.utime(file, ns=(10**18, 10**18))


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remember digests of files that were written just now."""
    monkeypatch.setattr(_content, "RECENT", -(10**12))


def folder_of_two(root: Path) -> Path:
    for number, name in enumerate(("a/1.bmp", "a/2.bmp", "b/1.bmp", "b/2.bmp")):
        write_bmp(root / name, number)
    return root


def test_a_replaced_image_of_the_same_size_changes_the_fingerprint(tmp_path: Path) -> None:
    root = folder_of_two(tmp_path / "photos")
    before = load("folder", root=str(root))
    assert load("folder", root=str(root)).fingerprint == before.fingerprint
    replace_in_place(root / "b" / "1.bmp", 200)
    assert load("folder", root=str(root)).fingerprint != before.fingerprint


def test_tables_with_the_same_names_in_different_folders_differ(tmp_path: Path) -> None:
    found = []
    for number, place in enumerate(("one", "two")):
        write_bmp(tmp_path / place / "x.bmp", number)
        table = tmp_path / f"{place}.csv"
        table.write_text(f"path,label\n{tmp_path / place / 'x.bmp'},a\n")
        found.append(load("csv", file=str(table)).fingerprint)
    assert found[0] != found[1]


def test_official_lists_keep_their_fingerprint_and_tell_their_content(tmp_path: Path) -> None:
    folder = layouts.cub200(tmp_path)
    before = load("cub200", root=str(folder))
    assert before.fingerprint == names_and_sizes(folder, before.labels, before.is_test)
    one, other = (file for file in sorted((folder / "images").rglob("*.jpg"))[:2])
    size = max(one.stat().st_size, other.stat().st_size)
    for file in (one, other):
        file.write_bytes(file.read_bytes().ljust(size, b"\0"))
    padded = load("cub200", root=str(folder))
    store.prepare(padded, tmp_path / "stores", resize=None)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    swapped = load("cub200", root=str(folder))
    assert swapped.fingerprint == padded.fingerprint and swapped.content != padded.content
    assert store.load_from_store(padded, tmp_path / "stores", resize=None) is not None
    assert store.load_from_store(swapped, tmp_path / "stores", resize=None) is None


def names_and_sizes(folder: Path, labels: np.ndarray, is_test: np.ndarray | None) -> str:
    """Fingerprint as in records from before contents were hashed."""
    import hashlib

    digest = hashlib.sha256()
    for line in (folder / "images.txt").read_text().splitlines():
        path = line.split()[1]
        digest.update(f"{path}\0{(folder / 'images' / path).stat().st_size}\n".encode())
    for part in (labels, is_test, None, None):
        digest.update(b"-" if part is None else part.tobytes())
    return digest.hexdigest()


@pytest.mark.usefixtures("settled")
def test_unchanged_files_are_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = folder_of_two(tmp_path / "photos")
    names = ["a/1.bmp", "a/2.bmp", "b/1.bmp"]
    reports: list[tuple[int, int]] = []
    with report_hashing(lambda done, total: reports.append((done, total))):
        first = hash_files(root, names)
    assert reports[-1] == (3, 3)
    read: list[str] = []
    hash_one = _content.hash_file

    def noting(path):
        read.append(str(path))
        return hash_one(path)

    monkeypatch.setattr(_content, "hash_file", noting)
    assert (hash_files(root, names).digests == first.digests).all() and not read
    more = hash_files(root, [*names, "b/2.bmp"])  # one more file, and another order of the memory
    assert len(read) == 1 and (more.digests[:3] == first.digests).all()
    assert (hash_files(root, names[::-1]).digests == first.digests[::-1]).all() and len(read) == 1
    replace_in_place(root / "a" / "2.bmp", 99)
    assert (hash_files(root, names).digests != first.digests).any(axis=1).tolist() == [False, True, False]


def test_files_changed_just_now_are_not_remembered(tmp_path: Path) -> None:
    root = folder_of_two(tmp_path / "photos")
    hash_files(root, ["a/1.bmp"])
    assert not list((tmp_path / "cache").rglob("*.npz"))


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("damage", [b"", b"junk", b"PK\x03\x04"])
def test_a_damaged_memory_is_ignored(tmp_path: Path, damage: bytes) -> None:
    root = folder_of_two(tmp_path / "photos")
    first = hash_files(root, ["a/1.bmp"])
    (memory,) = (tmp_path / "cache").rglob("*.npz")
    memory.write_bytes(damage or memory.read_bytes()[:-30])
    assert (hash_files(root, ["a/1.bmp"]).digests == first.digests).all()


def test_a_file_that_changes_after_the_opening_is_refused(tmp_path: Path) -> None:
    root = folder_of_two(tmp_path / "photos")
    images = load("folder", root=str(root)).images
    age(root / "a" / "1.bmp")  # another time, the same content
    assert images.read(0).max() == 0
    replace_in_place(root / "a" / "2.bmp", 99)
    with pytest.raises(ImageError, match=r"2\.bmp: changed after the dataset was opened"):
        images.read(1)
    with pytest.raises(ImageError, match=r"2\.bmp: changed after the dataset was opened"):
        images.select(np.array([1])).read(0)


def test_other_libraries_tell_the_content_of_every_image(tmp_path: Path) -> None:
    root = folder_of_two(tmp_path / "photos")
    before = load("torchvision:ImageFolder", root=str(root))
    replace_in_place(root / "a" / "2.bmp", 99)
    after = load("torchvision:ImageFolder", root=str(root))
    assert before.fingerprint != after.fingerprint
    assert before.digests is not None and after.digests is not None
    assert np.any(before.digests != after.digests, axis=1).tolist() == [False, True, False, False]


def test_a_hub_dataset_tells_the_content_of_every_image(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    found = []
    for value in (5, 6):
        pixels = np.zeros((100, 4, 4, 3), dtype=np.uint8)
        pixels[:, 0, 0, 0] = np.arange(100)
        pixels[50, 1, 1, 1] = value  # one image among many
        images = [Image.fromarray(each) for each in pixels]
        made = datasets.Dataset.from_dict({"image": images, "label": [0, 1] * 50})
        made.save_to_disk(str(tmp_path / f"set-{value}"))
        found.append(load(f"hf:{tmp_path / f'set-{value}'}"))
    assert found[0].fingerprint != found[1].fingerprint
    before, after = (each.digests for each in found)
    assert before is not None and after is not None
    assert np.flatnonzero(np.any(before != after, axis=1)).tolist() == [50]
