"""Fetching a dataset from its official source: download, check, unpack."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from levelfield.data import registry
from levelfield.data._archive import is_archive, unpack
from levelfield.data._dataset import DatasetCard, Download
from levelfield.data._download import UnreachableError, download, md5_of, read_text
from levelfield.errors import RunError, UsageError, did_you_mean
from levelfield.files import write_text

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]  # file name, bytes so far, bytes in all (0 if unknown)


def terms(name: str) -> str:
    """What a user must know before fetching: licence, source, citation, checksums."""
    card = _card(name)
    known = sum(1 for file in card.downloads if file.md5 or file.md5_url)
    checks = f"{known} of {len(card.downloads)} files have a known checksum" if card.downloads else "none"
    lines = [
        f"dataset:   {name}: {card.summary}",
        f"licence:   {card.licence}",
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
    say: Say = lambda message: None,
    progress: Progress = lambda file, done, total: None,
) -> None:
    """Download and unpack the dataset ``name`` below ``root``.

    What is there already is kept: a file that is whole, an archive that you put there yourself (its checksum
    is compared), what has been unpacked before, and the beginning of a broken download.

    Args:
        name: A dataset that has a source.
        root: The folder for all datasets.
        parts: Parts of the dataset, such as "tables" of gldv2; all of them by default.
        say: Called with a line for each step.
        progress: Called while a file arrives.
    """
    card = _card(name)
    if not card.downloads:
        remedy = card.by_hand or f"it needs no download; see {card.source or 'its options'}"
        raise UsageError(f"{name} cannot be fetched automatically: {remedy} ({card.source})")
    known = sorted({file.part for file in card.downloads})
    for part in parts:
        if part not in known:
            raise UsageError(f'{name} has no part "{part}"{did_you_mean(part, known)}')
    for file in card.downloads:
        if parts and file.part not in parts:
            continue
        try:
            _fetch_file(file, Path(root), say, partial(progress, file.file))
        except UnreachableError as error:
            raise RunError(f"{error}{'; or: ' if card.by_hand else ''}{card.by_hand}") from error


def _card(name: str) -> DatasetCard:
    return registry[name].card


def _fetch_file(file: Download, root: Path, say: Say, progress: Callable[[int, int], None]) -> None:
    target = root / file.file
    done = target.with_name(f".{target.name}.unpacked")
    # It names a file of the archive's: if that is gone, so is what was unpacked.
    if done.exists() and (root / done.read_text(encoding="utf-8")).exists():
        say(f"{file.file} is unpacked already")
        return
    md5 = _checksum(file)
    if target.exists():
        say(f"{file.file} is there already; checking it")
        _check_given(target, md5)
    else:
        say(f"fetching {file.file}")
        download(file.urls, target, md5=md5, progress=progress)
    if not md5:
        say(f"{file.file} has no known checksum; its MD5 is {md5_of(target)}")
    if is_archive(target):
        say(f"unpacking {file.file}")
        files = unpack(target, root / file.into)
        write_text(done, files[0].relative_to(root).as_posix() if files else ".")
        say(f"{len(files):,} files unpacked; {target} is no longer needed")


def _checksum(file: Download) -> str:
    """The known checksum, or the publisher's own file of it (``CHECKSUM  NAME``)."""
    if not file.md5_url:
        return file.md5
    fields = read_text(file.md5_url).split()
    if not fields or len(fields[0]) != 32:
        raise RunError(f"{file.md5_url} holds no MD5 checksum; give the command again later")
    return fields[0].lower()


def _check_given(target: Path, md5: str) -> None:
    """Unlike a file of our own download, one that was there is the user's: never removed."""
    if md5 and (found := md5_of(target)) != md5:
        raise RunError(
            f"{target} has the checksum {found} instead of {md5}, so it is damaged or another edition; "
            "remove it and give the command again"
        )
