"""Indexing: read, look up, decode, embed and write images in chunks; the next chunk is prepared meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from levelfield.core.errors import LevelfieldError, RunError
from levelfield.data import ImageError
from levelfield.retrieval.embedders import ImageEmbedder
from levelfield.retrieval.index._catalog import NewImage
from levelfield.retrieval.index._sources import LoadedImage, SourceImage, read_image_file
from levelfield.retrieval.index._store import VectorStore

CHUNK = 128  # images per commit


@dataclass
class IndexingResult:
    """Counts of what happened to the images to be added.

    Attributes:
        added: Number of new images.
        known: Number of images that the index held already, compared by content.
        moved: Number of known images that were renamed in the index because their file moved.
        replaced: Number of images removed because their file now holds another image.
        unreadable: Name and reason of each image that could not be read.
    """

    added: int = 0
    known: int = 0
    moved: int = 0
    replaced: int = 0
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    @property
    def seen(self) -> int:
        """Number of images that were examined."""
        return self.added + self.known + self.moved + len(self.unreadable)


@dataclass(frozen=True)
class _Prepared:
    """Prepared chunk: new images as network input, images already in the index, and unreadable images."""

    seen: list[tuple[str, bytes]]
    new_images: list[NewImage]
    inputs: Tensor | None
    known: list[tuple[SourceImage, bytes]]
    unreadable: list[tuple[str, str]]


def add_images(
    store: VectorStore,
    embedder: ImageEmbedder,
    images: Iterable[SourceImage],
    *,
    threads: int | None = None,
    progress_callback: Callable[[IndexingResult], None] = lambda result: None,
) -> IndexingResult:
    """Embed the images that are not in ``store`` yet and add them.

    The function can be killed at any moment and called again; it then continues.

    Args:
        store: Index that is open for writing.
        embedder: Model of the index.
        images: Images to add.
        threads: Number of threads for decoding and for the network. Defaults to PyTorch's number.
        progress_callback: Called after every chunk with the counts so far.
    """
    result = IndexingResult()
    outdated: list[tuple[str, bytes]] = []
    workers = threads or torch.get_num_threads()
    with ThreadPoolExecutor(workers) as pool, ThreadPoolExecutor(1) as ahead:
        chunks = _chunks(images)
        upcoming = ahead.submit(_prepare_next, store, embedder, chunks, pool)
        while (prepared := upcoming.result()) is not None:
            upcoming = ahead.submit(_prepare_next, store, embedder, chunks, pool)
            _add_chunk(store, embedder, prepared, result, threads=threads)
            outdated += prepared.seen if store.outdated_rows(prepared.seen) else []
            progress_callback(result)
    # At the end: the old content of a file may since have been found under another name.
    rows = store.outdated_rows(outdated)
    store.remove_rows(rows)
    result.replaced = len(rows)
    return result


def _chunks(images: Iterable[SourceImage]) -> Iterator[list[SourceImage]]:
    source = iter(images)
    while chunk := list(itertools.islice(source, CHUNK)):
        yield chunk


def _prepare_next(
    store: VectorStore, embedder: ImageEmbedder, chunks: Iterator[list[SourceImage]], pool: Executor
) -> _Prepared | None:
    chunk = next(chunks, None)
    if chunk is None:
        return None
    loaded = list(pool.map(_load, chunk))
    unreadable = [(s.name, got) for s, got in zip(chunk, loaded, strict=True) if isinstance(got, str)]
    readable = [(s, got) for s, got in zip(chunk, loaded, strict=True) if not isinstance(got, str)]
    present = store.find_by_content([content for _, (content, _) in readable])
    known = [(source, content) for source, (content, _) in readable if content in present]
    fresh = [(source, got) for source, got in readable if got[0] not in present]
    inputs = list(pool.map(lambda pair: _preprocess(embedder, pair[1]), fresh))
    new_images, ready = [], []
    for (source, (content, _)), image in zip(fresh, inputs, strict=True):
        if isinstance(image, str):
            unreadable.append((source.name, image))
        else:
            new_images.append(NewImage(content, source.name, source.label))
            ready.append(image)
    seen = [(source.name, content) for source, (content, _) in readable]
    return _Prepared(seen, new_images, torch.stack(ready) if ready else None, known, unreadable)


def _load(source: SourceImage) -> LoadedImage | str:
    """Load one image; return an error message if that fails."""
    try:
        (source.name + source.label).encode()
    except UnicodeEncodeError:
        return _one_line(RunError(f"{source.name}: its name is not UTF-8; rename it"))
    try:
        return source.load()
    except Exception as error:  # one bad image must not stop the others
        return _one_line(error)


def _preprocess(embedder: ImageEmbedder, loaded: LoadedImage) -> Tensor | str:
    """Decode one image to network input; return an error message if that fails."""
    try:
        return embedder.preprocess(loaded[1]())
    except Exception as error:
        return _one_line(error)


def _one_line(error: Exception) -> str:
    return str(error if isinstance(error, LevelfieldError) else RunError(f"{type(error).__name__}: {error}"))


def _add_chunk(
    store: VectorStore,
    embedder: ImageEmbedder,
    prepared: _Prepared,
    result: IndexingResult,
    *,
    threads: int | None,
) -> None:
    present = store.find_by_content([content for _, content in prepared.known])
    for source, content in prepared.known:
        image = present[content]
        if source.name != image.name and _is_gone(image.name, content):
            store.rename(image.row, name=source.name, label=source.label)
            result.moved += 1
        else:
            result.known += 1
    result.unreadable += prepared.unreadable
    if prepared.inputs is None:
        return
    # The previous chunk was not written yet at the lookup of this one, and a chunk may hold an image twice.
    held = set(store.find_by_content([new.content for new in prepared.new_images]))
    kept = []
    for place, new in enumerate(prepared.new_images):
        if new.content not in held:
            held.add(new.content)
            kept.append(place)
    result.known += len(prepared.new_images) - len(kept)
    if kept:
        vectors = embedder.embed_batch(prepared.inputs[kept], threads=threads)
        store.add([prepared.new_images[place] for place in kept], vectors.numpy())
        result.added += len(kept)


def _is_gone(name: str, content: bytes) -> bool:
    """Return True if the file ``name`` no longer holds this content; always False for dataset rows."""
    path = Path(name)
    if not path.is_absolute():
        return False
    try:
        return read_image_file(path)[0] != content
    except ImageError:
        return True
