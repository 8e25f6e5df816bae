"""Filling an index: read, look up, decode, embed, write; the next pictures are prepared meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from levelfield.data import ImageError
from levelfield.embedders import PictureEmbedder
from levelfield.errors import LevelfieldError, RunError
from levelfield.index._catalog import NewItem
from levelfield.index._sources import Entry, Loaded, load_file
from levelfield.index._store import VectorStore

CHUNK = 128  # pictures that are committed together


@dataclass
class Outcome:
    """What became of the pictures that were to be added.

    Attributes:
        added: How many are new.
        known: How many were in already, by their content.
        moved: How many were in under a name that is no longer theirs, and have their new name now.
        replaced: How many are out because their file holds another picture now.
        unreadable: Name and reason of those that could not be read.
    """

    added: int = 0
    known: int = 0
    moved: int = 0
    replaced: int = 0
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    @property
    def seen(self) -> int:
        """How many pictures were looked at."""
        return self.added + self.known + self.moved + len(self.unreadable)


@dataclass(frozen=True)
class _Prepared:
    """A chunk: its new pictures, ready for the network, what is in already, and what cannot be read."""

    seen: list[tuple[str, bytes]]
    items: list[NewItem]
    images: Tensor | None
    known: list[tuple[Entry, bytes]]
    unreadable: list[tuple[str, str]]


def add_pictures(
    store: VectorStore,
    embedder: PictureEmbedder,
    entries: Iterable[Entry],
    *,
    threads: int | None = None,
    report: Callable[[Outcome], None] = lambda outcome: None,
) -> Outcome:
    """Embed what is not in ``store`` yet and add it; can be killed at any moment and started again.

    Args:
        store: An index that is open for writing.
        embedder: Its model.
        entries: The pictures.
        threads: How many pictures are decoded, and batches computed, at once; PyTorch's number if None.
        report: Called after every chunk with what has become of the pictures so far.
    """
    outcome = Outcome()
    outdated: list[tuple[str, bytes]] = []
    workers = threads or torch.get_num_threads()
    with ThreadPoolExecutor(workers) as pool, ThreadPoolExecutor(1) as ahead:
        chunks = _chunks(entries)
        upcoming = ahead.submit(_prepare_next, store, embedder, chunks, pool)
        while (prepared := upcoming.result()) is not None:
            upcoming = ahead.submit(_prepare_next, store, embedder, chunks, pool)
            _take_in(store, embedder, prepared, outcome, threads=threads)
            outdated += prepared.seen if store.outdated(prepared.seen) else []
            report(outcome)
    # Only now: what lay under that name may have been met under another one since.
    rows = store.outdated(outdated)
    store.discard(rows)
    outcome.replaced = len(rows)
    return outcome


def _chunks(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    source = iter(entries)
    while chunk := list(itertools.islice(source, CHUNK)):
        yield chunk


def _prepare_next(
    store: VectorStore, embedder: PictureEmbedder, chunks: Iterator[list[Entry]], pool: Executor
) -> _Prepared | None:
    chunk = next(chunks, None)
    if chunk is None:
        return None
    loaded = list(pool.map(_loaded, chunk))
    unreadable = [(e.name, got) for e, got in zip(chunk, loaded, strict=True) if isinstance(got, str)]
    readable = [(e, got) for e, got in zip(chunk, loaded, strict=True) if not isinstance(got, str)]
    present = store.known([content for _, (content, _) in readable])
    known = [(entry, content) for entry, (content, _) in readable if content in present]
    fresh = [(entry, got) for entry, got in readable if got[0] not in present]
    images = list(pool.map(lambda pair: _pixels(embedder, pair[1]), fresh))
    items, ready = [], []
    for (entry, (content, _)), image in zip(fresh, images, strict=True):
        if isinstance(image, str):
            unreadable.append((entry.name, image))
        else:
            items.append(NewItem(content, entry.name, entry.label))
            ready.append(image)
    seen = [(entry.name, content) for entry, (content, _) in readable]
    return _Prepared(seen, items, torch.stack(ready) if ready else None, known, unreadable)


def _loaded(entry: Entry) -> Loaded | str:
    try:
        (entry.name + entry.label).encode()
    except UnicodeEncodeError:
        return _one_line(RunError(f"{entry.name}: its name is not UTF-8; rename it"))
    try:
        return entry.load()
    except Exception as error:  # whatever is wrong with one picture, the others go on
        return _one_line(error)


def _pixels(embedder: PictureEmbedder, loaded: Loaded) -> Tensor | str:
    try:
        return embedder.preprocess(loaded[1]())
    except Exception as error:
        return _one_line(error)


def _one_line(error: Exception) -> str:
    return str(error if isinstance(error, LevelfieldError) else RunError(f"{type(error).__name__}: {error}"))


def _take_in(
    store: VectorStore,
    embedder: PictureEmbedder,
    prepared: _Prepared,
    outcome: Outcome,
    *,
    threads: int | None,
) -> None:
    present = store.known([content for _, content in prepared.known])
    for entry, content in prepared.known:
        item = present[content]
        if entry.name != item.name and _is_gone(item.name, content):
            store.rename(item.row, name=entry.name, label=entry.label)
            outcome.moved += 1
        else:
            outcome.known += 1
    outcome.unreadable += prepared.unreadable
    if prepared.images is None:
        return
    # The chunk before was not written yet when this one was looked up, and a chunk may hold a picture twice.
    held = set(store.known([new.content for new in prepared.items]))
    kept = []
    for place, new in enumerate(prepared.items):
        if new.content not in held:
            held.add(new.content)
            kept.append(place)
    outcome.known += len(prepared.items) - len(kept)
    if kept:
        vectors = embedder.embed_batch(prepared.images[kept], threads=threads)
        store.add([prepared.items[place] for place in kept], vectors.numpy())
        outcome.added += len(kept)


def _is_gone(name: str, content: bytes) -> bool:
    """Whether the file called ``name`` no longer holds this content; rows of datasets never move."""
    path = Path(name)
    if not path.is_absolute():
        return False
    try:
        return load_file(path)[0] != content
    except ImageError:
        return True
