"""Index in a directory.

* ``index.json``: the index card.
* ``catalog.sqlite``: names, labels and content hashes.
* ``vectors-*.f32``: the vectors.
* ``model/``: a copy of the model, so that a search needs nothing else.
* ``approximate-*.faiss``: the approximate part, for large indexes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from levelfield.core.errors import RunError, UsageError
from levelfield.core.files import lock, make_directory, sync_directory, wrap_disk_errors, write_bytes
from levelfield.retrieval.embedders import ModelCard, read_model_card
from levelfield.retrieval.index import _approximate as approximate
from levelfield.retrieval.index._approximate import ApproximateCard, ApproximateIndex
from levelfield.retrieval.index._card import (
    CARD,
    IndexCard,
    check_same_model,
    is_index,
    read_index_card,
    write_index_card,
)
from levelfield.retrieval.index._catalog import CATALOG, Catalog, IndexedImage, NewImage
from levelfield.retrieval.index._exact import merge_results, search_exactly, search_rows
from levelfield.retrieval.index._filters import Condition
from levelfield.retrieval.index._sources import absolute_path
from levelfield.retrieval.index._store import Progress
from levelfield.retrieval.index._vectors import REMEDY, SHARD_ROWS, Floats, Rows, Vectors

MODEL, LOCK = "model", ".lock"
MEMORY = 4 << 30
RECALL = 0.95
REMEASURE = 0.1  # share of rows removed after which the recall is measured again
TAIL = 20_000  # new rows that are searched exactly before they are added to the approximate part


class LocalIndex:
    """Index in a directory, in its state at opening time; :meth:`refresh` loads later changes.

    Use :func:`open_index` to read and :func:`open_or_create_index` to write.
    """

    def __init__(self, directory: Path, *, write: bool = False) -> None:
        self.directory = directory
        self.card = read_index_card(directory)
        if not write and not (directory / CATALOG).is_file():
            raise RunError(f"{directory} has no {CATALOG}; run the same index command again")
        self._catalog = Catalog(directory, write=write)
        self._catalog.check_rows()
        self._version: tuple[int, ...] = ()
        self._approximate: ApproximateIndex | None = None
        self.refresh()

    @property
    def model(self) -> ModelCard:
        """Card of the model that computed all vectors."""
        return self.card.model

    def __len__(self) -> int:
        return self._vectors.count - len(self._removed)

    def refresh(self) -> None:
        """Load changes by other processes."""
        version = self._current_version()
        if version == self._version:
            return
        self.card = read_index_card(self.directory)
        self._version = version
        self._vectors = Vectors(
            self.directory, size=self.card.model.size, count=version[0], shard_rows=self.card.shard_rows
        )
        self._removed = self._catalog.removed()
        self._approximate = None

    def _current_version(self) -> tuple[int, ...]:
        """Return a value that changes when a row is added or removed, or the card is replaced."""
        try:
            card = (self.directory / CARD).stat()
        except OSError as error:
            raise RunError(
                f"{self.directory} is no longer an index ({CARD} is missing); open another"
            ) from error
        return (*self._catalog.version(), card.st_ino, card.st_mtime_ns)

    def find_by_content(self, contents: Sequence[bytes]) -> dict[bytes, IndexedImage]:
        """Return the images with these content hashes."""
        return self._catalog.find_by_content(contents)

    def images(self, rows: Sequence[int]) -> list[IndexedImage]:
        """Return the images of these rows, in this order, without removed ones."""
        return self._catalog.images(rows)

    def all_images(self) -> Iterator[IndexedImage]:
        """Yield all images in the order in which they were added."""
        return self._catalog.all_images()

    def vectors(self, rows: Rows) -> Floats:
        """Return the vectors of these rows (n x D)."""
        return self._vectors.take(rows)

    def columns(self) -> list[str]:
        """Return the names of the metadata columns."""
        return self._catalog.columns()

    def root(self) -> str:
        """Return the folder that holds all images; empty if they are not files or share none."""
        return self._catalog.root()

    def select(self, conditions: Sequence[Condition]) -> Rows:
        """Return the rows that meet all conditions, in ascending order."""
        return self._catalog.select(conditions)

    def metadata(self, rows: Sequence[int]) -> dict[int, dict[str, str]]:
        """Return the metadata of these rows."""
        return self._catalog.metadata(rows)

    def set_metadata(self, values: Mapping[int, Mapping[str, str]]) -> None:
        """Set values of columns by row; other columns of these rows are kept."""
        self._catalog.set_metadata(values)

    def find_by_name(self, names: Sequence[str]) -> dict[str, int]:
        """Return the rows of the images with these names."""
        return self._catalog.rows_by_name(names)

    def images_without(self, column: str, *, after: int, count: int) -> list[IndexedImage]:
        """Return the first ``count`` images with a row above ``after`` that have no value in a column."""
        return self._catalog.images_without(column, after=after, count=count)

    def nearest(self, queries: Floats, count: int, *, among: Rows | None = None) -> tuple[Rows, Floats]:
        """Return the rows most similar to each query (unit vectors, Q x D) and their similarities, Q x k.

        k is ``count``, or the number of images if that is smaller. ``among`` limits the search to these rows,
        in ascending order. The search is then exact if they are no more than ``exact_up_to``.
        """
        if self._approximate is None and not (self.directory / self.card.approximate_file).exists():
            self.refresh()  # a writer has replaced it
        removed = self._removed
        if among is not None:
            among = among[
                among < self._vectors.count
            ]  # rows that a writer added meanwhile have no vector yet
            if self._is_exact() or len(among) <= self.card.exact_up_to:
                return search_rows(self._vectors, queries, count, among)
            removed = np.setdiff1d(np.arange(self._vectors.count), among, assume_unique=True)
        count = min(count, self._vectors.count - len(removed))
        if self._is_exact():
            return search_exactly(self._vectors, queries, count, removed=removed)
        index = self._open_approximate()
        rows, values = index.search(self._vectors, queries, count, removed=removed)
        if index.rows == self._vectors.count:
            return rows, values
        tail = search_exactly(self._vectors, queries, count, first=index.rows, removed=removed)
        return merge_results(rows, values, *tail, count)

    def _is_exact(self) -> bool:
        # The recall of a graph drops when most of its rows are removed; exact search of few rows is fast.
        return self.card.approximate is None or len(self) <= self.card.exact_up_to

    def _open_approximate(self) -> ApproximateIndex:
        if self._approximate is None:
            assert self.card.approximate is not None
            file = self.directory / self.card.approximate_file
            self._approximate = approximate.read_index(file, self.card.approximate)
        return self._approximate

    def add(self, images: Sequence[NewImage], vectors: Floats) -> None:
        """Add images with their vectors (n x D): write the vectors, then commit the catalog rows."""
        if not images:
            return
        first = self._vectors.count
        self._vectors.append(vectors)
        self._catalog.add(first, images)

    def rename(self, row: int, *, name: str, label: str) -> None:
        """Set the name and label of an image whose file moved."""
        self._catalog.rename(row, name=name, label=label)

    def outdated_rows(self, seen: Sequence[tuple[str, bytes]]) -> list[int]:
        """Return the rows with one of these names but another content hash."""
        return self._catalog.outdated_rows(seen)

    def remove_rows(self, rows: Sequence[int]) -> None:
        """Remove these rows."""
        self._catalog.remove(rows)
        self.refresh()

    def remove(self, name: str) -> int:
        """Remove the image called ``name``, or all images in the folder ``name``; return their number."""
        rows: set[int] = set()
        for each in {name, str(absolute_path(name))}:
            rows |= set(self._catalog.find_by_name(each, below=False))
            rows |= set(self._catalog.find_by_name(each, below=True))
        self.remove_rows(sorted(rows))
        return len(rows)

    def finish(self, progress: Progress = lambda done, total: None) -> None:
        """Build, extend or delete the approximate part, depending on the number of images."""
        card = self.card
        index_type = approximate.choose_index_type(
            len(self), card.model.size, memory=card.memory, exact_up_to=card.exact_up_to
        )
        covered = card.approximate
        if index_type.kind == "exact":
            if covered is not None:
                self._set_approximate(None, "")
            return
        fits = covered is not None and covered.kind == index_type.kind and covered.bytes <= card.memory
        if covered is not None and fits and self._vectors.count < 2 * covered.rows:
            if self._is_recall_current(covered) and self._vectors.count - covered.rows <= TAIL:
                return
            recipe = covered.recipe
            index = approximate.read_index(self.directory / card.approximate_file, covered, mapped=False)
            new = np.arange(covered.rows, self._vectors.count)
        else:
            recipe = index_type.recipe
            new = approximate.held_out_rows(self._vectors)
            index = approximate.build_index(self._vectors, index_type, without=new, progress=progress)
        recall = approximate.tune_effort(
            index, self._vectors, new=new, target=card.recall, removed=self._removed
        )
        index.add(self._vectors, new)
        file = self.directory / f"approximate-{index_type.kind}-{index.rows}.faiss"
        facts = ApproximateCard(
            kind=index_type.kind,
            recipe=recipe,
            rows=index.rows,
            effort=index.effort,
            refine=index.refine,
            recall=recall.value,
            low=recall.low,
            high=recall.high,
            fresh=recall.fresh,
            sample=recall.sample,
            target=card.recall,
            bytes=index.write(file),
            removed=len(self._removed),
        )
        self._set_approximate(facts, file.name)

    def _is_recall_current(self, covered: ApproximateCard) -> bool:
        """Return True if the recall was measured for the current target and about the current rows."""
        change = abs(len(self._removed) - covered.removed)
        return covered.target == self.card.recall and change <= REMEASURE * (covered.rows - covered.removed)

    def _set_approximate(self, facts: ApproximateCard | None, name: str) -> None:
        """Write a new approximate part to the card, then delete the old file."""
        self.card = self.card.model_copy(update={"approximate": facts, "approximate_file": name})
        write_index_card(self.directory, self.card)
        self._approximate = None
        for old in self.directory.glob("approximate-*.faiss"):
            if old.name != name:
                old.unlink()

    def close(self) -> None:
        """Close the catalog."""
        self._catalog.close()


def open_index(directory: str | Path) -> LocalIndex:
    """Open an index for searching; another process may write to it meanwhile."""
    return LocalIndex(Path(directory))


@contextmanager
def open_or_create_index(
    directory: str | Path,
    model: str | Path,
    *,
    memory: int | None = None,
    recall: float | None = None,
    exact_up_to: int | None = None,
) -> Iterator[LocalIndex]:
    """Open an index for adding images, and create it if it is missing; one writer at a time.

    Args:
        directory: Index of the same model, or an empty or missing directory.
        model: Model directory; copied into a new index.
        memory: Maximum size of the approximate part in bytes. A new index has 4 GB.
        recall: Target recall at 10 of the approximate part. A new index has 0.95.
        exact_up_to: Maximum number of images for exact search. A new index has 200,000.
    """
    path, card = Path(directory), read_model_card(model)
    if path.exists() and not is_index(path) and _holds_other_files(path):
        raise UsageError(f"{path} holds other files and is not an index; choose an empty directory with -o")
    with wrap_disk_errors(path, remedy=REMEDY):
        make_directory(path)
    with _exclusive_writer(path):
        if is_index(path):
            found = read_index_card(path)
            check_same_model(found.model, card, str(path))
        else:
            _copy_model(Path(model), path / MODEL)
            found = IndexCard(model=card, memory=MEMORY, recall=RECALL, shard_rows=SHARD_ROWS)
        wanted = {
            "memory": found.memory if memory is None else memory,
            "recall": found.recall if recall is None else recall,
            "exact_up_to": found.exact_up_to if exact_up_to is None else exact_up_to,
        }
        if not is_index(path) or any(getattr(found, key) != value for key, value in wanted.items()):
            write_index_card(path, found.model_copy(update=wanted))
        index = LocalIndex(path, write=True)
        try:
            yield index
        finally:
            index.close()


@contextmanager
def edit_index(directory: str | Path) -> Iterator[LocalIndex]:
    """Open an existing index for removing images; one writer at a time."""
    path = Path(directory)
    read_index_card(path)
    with _exclusive_writer(path):
        index = LocalIndex(path, write=True)
        try:
            yield index
        finally:
            index.close()


@contextmanager
def _exclusive_writer(path: Path) -> Iterator[None]:
    for file in path.iterdir():  # an index from elsewhere may link to files of yours
        if file.is_symlink():
            raise UsageError(f"{file} is a link, and writing would change its target; replace it with a copy")
    busy = f"another process is writing to {path}; wait until it has finished"
    with lock(path / LOCK, busy=busy, remedy=REMEDY):
        for leftover in path.glob(".*.tmp"):  # from a process that was killed while writing
            leftover.unlink()
        yield


def _holds_other_files(path: Path) -> bool:
    """Return True if a directory without a card holds files that an interrupted creation does not leave."""
    ours = {LOCK, MODEL, CARD}
    return any(file.name not in ours and not file.name.endswith(".tmp") for file in path.iterdir())


def _copy_model(source: Path, target: Path) -> None:
    with wrap_disk_errors(target, remedy=REMEDY):
        make_directory(target)
        for name in ("weights.safetensors", "model.json"):
            write_bytes(target / name, (source / name).read_bytes(), remedy=REMEDY)
        sync_directory(target)


def describe_search(index: LocalIndex) -> str:
    """Return a short description of how an index is searched."""
    facts = index.card.approximate
    if facts is None:
        return "exact search"
    asked = "new images" if facts.fresh else "its own images"
    return (
        f"{facts.recipe}, recall at 10 of {facts.recall:.3f} ({facts.low:.3f} to {facts.high:.3f}) against "
        f"exact search on {facts.sample} {asked}, {facts.bytes / 1e6:.0f} MB"
    )
