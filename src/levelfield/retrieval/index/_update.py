"""Adding images to an index and removing them, for an index directory or a database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from levelfield.core.errors import mask_password
from levelfield.retrieval.embedders import ImageEmbedder
from levelfield.retrieval.index._build import IndexingResult, add_images
from levelfield.retrieval.index._card import check_same_model
from levelfield.retrieval.index._local import (
    describe_search,
    edit_index,
    open_index,
    open_or_create_index,
)
from levelfield.retrieval.index._metadata import add_dates, add_metadata
from levelfield.retrieval.index._sources import SourceImage
from levelfield.retrieval.index._store import VectorStore, is_database


@dataclass(frozen=True)
class UpdatedIndex:
    """State of an index after an update.

    Attributes:
        result: Counts of added, known, moved, replaced and unreadable images.
        size: Number of images in the index.
        search: Short description of how the index is searched.
        described: Number of images that got metadata.
        undescribed: Number of lines of the metadata whose image the index does not hold.
    """

    result: IndexingResult
    size: int
    search: str
    described: int = 0
    undescribed: int = 0


def update_index(
    index: str,
    model: str | Path,
    embedder: ImageEmbedder,
    images: Iterable[SourceImage],
    *,
    memory: int | None = None,
    recall: float | None = None,
    exact_up_to: int | None = None,
    threads: int | None = None,
    metadata: Sequence[str | Path] = (),
    progress_callback: Callable[[IndexingResult], None] = lambda result: None,
) -> UpdatedIndex:
    """Add images to an index, and create it if it is missing.

    Args:
        index: Index directory, or the address of a database.
        model: Model directory of ``embedder``.
        embedder: Model of the index.
        images: Images to add.
        memory: As in :func:`open_or_create_index`; ignored for a database.
        recall: As in :func:`open_or_create_index`; ignored for a database.
        exact_up_to: As in :func:`open_or_create_index`; ignored for a database.
        threads: As in :func:`add_images`.
        metadata: CSV tables with the column ``path``; their other columns can be searched by. See
            :func:`add_metadata`.
        progress_callback: As in :func:`add_images`.
    """
    if is_database(index):
        from levelfield.retrieval.index.postgres import PostgresIndex

        store = PostgresIndex(index, model=embedder.card)
        check_same_model(store.model, embedder.card, mask_password(index))
        result = add_images(store, embedder, images, threads=threads, progress_callback=progress_callback)
        described = _describe(store, metadata)
        store.finish()
        return UpdatedIndex(result, len(store), "HNSW of pgvector", *described)
    with open_or_create_index(index, model, memory=memory, recall=recall, exact_up_to=exact_up_to) as local:
        result = add_images(local, embedder, images, threads=threads, progress_callback=progress_callback)
        described = _describe(local, metadata)
        local.finish()
        return UpdatedIndex(result, len(local), describe_search(local), *described)


def _describe(store: VectorStore, tables: Sequence[str | Path]) -> tuple[int, int]:
    """Store the metadata of all tables and the dates of the images; return the counts of the tables."""
    counts = [add_metadata(store, table) for table in tables]
    add_dates(store)
    return sum(done for done, _ in counts), sum(missing for _, missing in counts)


def remove_images(index: str, names: Sequence[str]) -> tuple[int, int]:
    """Remove images, or all images of folders; return the numbers of removed and remaining images."""
    if is_database(index):
        from levelfield.retrieval.index.postgres import PostgresIndex

        store = PostgresIndex(index)
        return sum(store.remove(name) for name in names), len(store)
    with edit_index(index) as local:
        removed, left = sum(local.remove(name) for name in names), len(local)
        local.finish()
    return removed, left


def open_store(index: str | Path) -> VectorStore:
    """Open an index directory, or an index in a database, for reading."""
    if is_database(index):
        from levelfield.retrieval.index.postgres import PostgresIndex

        return PostgresIndex(str(index))
    return open_index(index)
