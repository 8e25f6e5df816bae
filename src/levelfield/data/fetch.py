"""Fetch a dataset from its official source: download, verify, unpack."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from levelfield.core.errors import RunError, UsageError, did_you_mean
from levelfield.core.files import write_text
from levelfield.data import registry
from levelfield.data._archive import is_archive, unpack
from levelfield.data._dataset import DatasetCard, Download
from levelfield.data._download import UnreachableError, download, md5_of, read_text

MessageCallback = Callable[[str], None]
Progress = Callable[[str, int, int], None]  # file name, bytes downloaded, total bytes (0 if unknown)


def describe_terms(name: str) -> str:
    """Return license, source, citation and checksums of a dataset as text, for consent before fetching."""
    card = _card(name)
    known = sum(1 for file in card.downloads if file.md5 or file.md5_url)
    checks = f"{known} of {len(card.downloads)} files have a known checksum" if card.downloads else "none"
    lines = [
        f"dataset:   {name}: {card.summary}",
        f"license:   {card.license}",
        f"source:    {card.source}",
        f"citation:  {card.citation}",
        f"checksums: {checks}",
    ]
    return "\n".join(lines)


def fetch(
    name: str,
    root: str | Path = "data",
    *,
    parts: tuple[str, ...] = (),
    message_callback: MessageCallback = lambda message: None,
    progress: Progress = lambda file, done, total: None,
) -> None:
    """Download and unpack the dataset ``name`` below ``root``.

    Existing files are reused: complete files, archives that you put there yourself (their checksum is
    verified), unpacked files, and partial downloads.

    Args:
        name: Dataset with downloads on its card.
        root: Folder for all datasets.
        parts: Parts of the dataset, such as "tables" of gldv2. Defaults to all parts.
        message_callback: Called with one line of text for each step.
        progress: Called during downloads.
    """
    card = _card(name)
    if not card.downloads:
        remedy = card.manual_download or f"it needs no download; see {card.source or 'its options'}"
        raise UsageError(f"{name} cannot be fetched automatically: {remedy} ({card.source})")
    known = sorted({file.part for file in card.downloads})
    for part in parts:
        if part not in known:
            raise UsageError(f'{name} has no part "{part}"{did_you_mean(part, known)}')
    for file in card.downloads:
        if parts and file.part not in parts:
            continue
        try:
            _fetch_file(file, Path(root), message_callback, partial(progress, file.file))
        except UnreachableError as error:
            manual = f"; or: {card.manual_download}" if card.manual_download else ""
            raise RunError(f"{error}{manual}") from error


def _card(name: str) -> DatasetCard:
    return registry[name].card


def _fetch_file(
    file: Download, root: Path, message_callback: MessageCallback, progress: Callable[[int, int], None]
) -> None:
    target = root / file.file
    done = target.with_name(f".{target.name}.unpacked")
    # The marker holds the path of one unpacked file; if that file is missing, unpack again.
    if done.exists() and (root / done.read_text(encoding="utf-8")).exists():
        message_callback(f"{file.file} is unpacked already")
        return
    md5 = _checksum(file)
    if target.exists():
        message_callback(f"{file.file} exists already; checking it")
        _check_existing(target, md5)
    else:
        message_callback(f"fetching {file.file}")
        download(file.urls, target, md5=md5, progress=progress)
    if not md5:
        message_callback(f"{file.file} has no known checksum; its MD5 is {md5_of(target)}")
    if is_archive(target):
        message_callback(f"unpacking {file.file}")
        files = unpack(target, root / file.into)
        write_text(done, files[0].relative_to(root).as_posix() if files else ".")
        message_callback(f"{len(files):,} files unpacked; {target} is no longer needed")


def _checksum(file: Download) -> str:
    """Return the known checksum, or the one in the publisher's checksum file (``CHECKSUM  NAME``)."""
    if not file.md5_url:
        return file.md5
    fields = read_text(file.md5_url).split()
    if not fields or len(fields[0]) != 32:
        raise RunError(f"{file.md5_url} holds no MD5 checksum; run the command again later")
    return fields[0].lower()


def _check_existing(target: Path, md5: str) -> None:
    """Raise RunError if a file that existed before does not match ``md5``; never delete it."""
    if md5 and (found := md5_of(target)) != md5:
        raise RunError(
            f"{target} has the checksum {found} instead of {md5}, so it is damaged or another edition; "
            "delete it and run the command again"
        )
