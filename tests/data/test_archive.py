"""Archives: valid ones are unpacked; unsafe and damaged ones raise and leave no files."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from levelfield.data import _archive
from levelfield.data._archive import ArchiveError, unpack


def tar(file: Path, *members: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(file, mode) as stream:  # type: ignore[call-overload]  # any mode
        for info, body in members:
            info.size = len(body) if info.isreg() else 0
            stream.addfile(info, io.BytesIO(body) if info.isreg() else None)
    return file


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


GOOD = (entry("set/a.txt"), b"a"), (entry("set", tarfile.DIRTYPE), b""), (entry("set/deep/b.txt"), b"bb")


@pytest.mark.parametrize("name", ["x.tgz", "x.tar", "x.zip"])
def test_an_honest_archive_is_unpacked_beside_what_is_there(name: str, tmp_path: Path) -> None:
    archive = tmp_path / name
    if name.endswith("zip"):
        with zipfile.ZipFile(archive, "w") as stream:
            stream.mkdir("set")
            stream.writestr("set/a.txt", "a")
            stream.writestr("set/deep/b.txt", "bb")
    else:
        tar(archive, *GOOD, mode="w:gz" if name.endswith("tgz") else "w")
    (tmp_path / "out" / "set").mkdir(parents=True)
    (tmp_path / "out" / "set" / "mine.txt").write_text("mine")
    assert len(unpack(archive, tmp_path / "out")) == 2
    files = sorted(str(f.relative_to(tmp_path / "out")) for f in (tmp_path / "out").rglob("*") if f.is_file())
    assert files == ["set/a.txt", "set/deep/b.txt", "set/mine.txt"]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (entry("../evil.txt"), "outside the target directory"),
        (entry("set/../../evil.txt"), "outside the target directory"),
        (entry("/evil.txt"), "outside the target directory"),
        (entry("..\\evil.txt"), "outside the target directory"),
        (entry("C:evil.txt"), "outside the target directory"),
        (entry("set/link", tarfile.SYMTYPE, "/etc/passwd"), "is a link or a device"),
        (entry("set/link", tarfile.LNKTYPE, "set/a.txt"), "is a link or a device"),
        (entry("set/pipe", tarfile.FIFOTYPE), "is a link or a device"),
        (entry("set/device", tarfile.CHRTYPE), "is a link or a device"),
        (entry("set/a.txt"), "twice"),
    ],
    ids=lambda value: value.name if isinstance(value, tarfile.TarInfo) else None,
)
def test_a_hostile_tar_is_refused_and_leaves_nothing(
    bad: tarfile.TarInfo, message: str, tmp_path: Path
) -> None:
    archive = tar(tmp_path / "x.tgz", *GOOD, (bad, b"evil"))
    with pytest.raises(ArchiveError, match=message):
        unpack(archive, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == [] and not (tmp_path / "evil.txt").exists()


@pytest.mark.parametrize("kind", ["name", "folders", "deep", "end"])
def test_a_small_tar_does_not_fill_the_memory_or_the_disk(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_archive, "MIN_BUDGET", 1 << 20)
    content = io.BytesIO()
    if kind == "name":  # a header whose name has megabytes, all of which would be read at once
        info = entry("a", tarfile.GNUTYPE_LONGNAME)
        info.size = 4 << 20
        content.write(info.tobuf(tarfile.GNU_FORMAT) + b"a" * info.size)
    elif kind == "folders":
        content.write(entry("a", tarfile.DIRTYPE).tobuf() * 3000)
    elif kind == "deep":  # one file, and many folders
        for number in range(100):
            content.write(entry(f"{number}" + "/a" * 45).tobuf())
    content.write(bytes(1024 if kind != "end" else 4 << 20))
    archive = tmp_path / "x.tgz"
    archive.write_bytes(gzip.compress(content.getvalue()))
    with pytest.raises(ArchiveError, match="as archive bombs do"):
        unpack(archive, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_the_kind_of_a_tar_is_found_by_its_content(mode: str, tmp_path: Path) -> None:
    assert len(unpack(tar(tmp_path / "x.tar", *GOOD, mode=mode), tmp_path / "out")) == 2


def test_a_hostile_zip_is_refused(tmp_path: Path) -> None:
    for name, mode, message in [
        ("../evil.txt", 0, "outside the target directory"),
        ("/evil.txt", 0, "outside the target directory"),
        ("link", 0o120777, "is a link or a device"),
    ]:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as stream:
            stream.writestr(info, "/etc/passwd")
        with pytest.raises(ArchiveError, match=message):
            unpack(tmp_path / "x.zip", tmp_path / "out")


@pytest.mark.parametrize("name", ["x.tgz", "x.zip"])
def test_a_bomb_is_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_archive, "MIN_BUDGET", 1 << 16)
    zeros = bytes(1 << 22)
    if name.endswith("zip"):
        with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as stream:
            stream.writestr("zeros", zeros)
    else:
        tar(tmp_path / name, (entry("zeros"), zeros))
    with pytest.raises(ArchiveError, match="as archive bombs do"):
        unpack(tmp_path / name, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["x.tgz", "x.tar", "x.zip"])
def test_a_truncated_or_foreign_archive_is_named(name: str, tmp_path: Path) -> None:
    noise = hashlib.shake_128(b"noise").digest(100_000)
    archive = tmp_path / name
    if name.endswith("zip"):
        with zipfile.ZipFile(archive, "w") as stream:
            stream.writestr("noise", noise)
    else:
        tar(archive, (entry("noise"), noise), mode="w:gz" if name.endswith("tgz") else "w")
    whole = archive.read_bytes()
    for damaged in (whole[:50_000], b"<html>", whole[:30_000] + b"\0" * 200 + whole[30_200:]):
        archive.write_bytes(damaged)
        if name == "x.tar" and len(damaged) == len(whole):
            continue  # a plain tar has no checksum of its contents
        with pytest.raises(ArchiveError, match=r"x\.\w+ is damaged .*delete it and fetch it again"):
            unpack(archive, tmp_path / "out")
        assert list((tmp_path / "out").iterdir()) == []
