"""An index in a folder: a card, a catalogue, vectors, the model, and perhaps an approximate part.

* ``index.json``: the card. * ``catalog.sqlite``: names and labels. * ``vectors-*.f32``: the vectors.
* ``model/``: a copy of the model, so that the folder is all a search needs. * ``approximate-*.faiss``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from levelfield.embedders import ModelCard, read_card
from levelfield.errors import RunError, UsageError
from levelfield.files import disk_errors, flush_folder, lock, make_folder, write_bytes
from levelfield.index import _approximate as approximate
from levelfield.index._approximate import Approximate, Approximation
from levelfield.index._card import (
    CARD,
    IndexCard,
    check_same_model,
    is_index,
    read_index_card,
    write_index_card,
)
from levelfield.index._catalog import CATALOG, Catalog, Item, NewItem
from levelfield.index._exact import merge, search_exactly
from levelfield.index._sources import absolute
from levelfield.index._store import Progress
from levelfield.index._vectors import REMEDY, SHARD_ROWS, Floats, Rows, Vectors

MODEL, LOCK = "model", ".lock"
MEMORY = 4 << 30
RECALL = 0.95
REMEASURE = 0.1  # of the rows removed since: the recall is measured again
TAIL = 20_000  # rows that may wait, searched exactly, before they go into the approximate part


class LocalIndex:
    """The index in ``folder``, as it was when it was opened; :meth:`refresh` looks again.

    Use :func:`open_index` to read and :func:`writing` to write.
    """

    def __init__(self, folder: Path, *, write: bool = False) -> None:
        self.folder = folder
        self.card = read_index_card(folder)
        if not write and not (folder / CATALOG).is_file():
            raise RunError(f"{folder} has no {CATALOG}; give the same index command again")
        self._catalog = Catalog(folder, write=write)
        self._version: tuple[int, ...] = ()
        self._approximate: Approximate | None = None
        self.refresh()

    @property
    def model(self) -> ModelCard:
        """The model that all vectors are of."""
        return self.card.model

    def __len__(self) -> int:
        return self._vectors.count - len(self._removed)

    def refresh(self) -> None:
        """Take note of what another process has added or removed."""
        version = self._current_version()
        if version == self._version:
            return
        self.card = read_index_card(self.folder)
        self._version = version
        self._vectors = Vectors(
            self.folder, size=self.card.model.size, count=version[0], shard_rows=self.card.shard_rows
        )
        self._removed = self._catalog.removed()
        self._approximate = None

    def _current_version(self) -> tuple[int, ...]:
        """Changes with every row that is added or removed, and with every new card."""
        try:
            card = (self.folder / CARD).stat()
        except OSError as error:
            raise RunError(f"{self.folder} is no index any more ({CARD} is gone); open another") from error
        return (*self._catalog.version(), card.st_ino, card.st_mtime_ns)

    def known(self, contents: Sequence[bytes]) -> dict[bytes, Item]:
        """The pictures that have these contents."""
        return self._catalog.known(contents)

    def items(self, rows: Sequence[int]) -> list[Item]:
        """The pictures of these rows, in this order, without those that were removed."""
        return self._catalog.items(rows)

    def everything(self) -> Iterator[Item]:
        """All pictures, in the order in which they came."""
        return self._catalog.everything()

    def vectors(self, rows: Rows) -> Floats:
        """The vectors of these rows (n x D)."""
        return self._vectors.take(rows)

    def nearest(self, queries: Floats, count: int) -> tuple[Rows, Floats]:
        """The most similar rows of each query (unit vectors, Q x D) and their similarities, both Q x k.

        k is ``count``, or fewer where the index holds fewer pictures.
        """
        if self._approximate is None and not (self.folder / self.card.approximate_file).exists():
            self.refresh()  # a writer has put another in its place since
        count = min(count, len(self))
        if self._is_exact():
            return search_exactly(self._vectors, queries, count, removed=self._removed)
        index = self._opened()
        rows, values = index.search(self._vectors, queries, count, removed=self._removed)
        if index.rows == self._vectors.count:
            return rows, values
        tail = search_exactly(self._vectors, queries, count, first=index.rows, removed=self._removed)
        return merge(rows, values, *tail, count)

    def _is_exact(self) -> bool:
        # A graph loses its way where most of its rows are removed; few rows are quick to search exactly.
        return self.card.approximate is None or len(self) <= self.card.exact_up_to

    def _opened(self) -> Approximate:
        if self._approximate is None:
            assert self.card.approximate is not None
            file = self.folder / self.card.approximate_file
            self._approximate = approximate.read(file, self.card.approximate)
        return self._approximate

    def add(self, items: Sequence[NewItem], vectors: Floats) -> None:
        """Add pictures with their vectors (n x D): first the vectors, then, in one step, their names."""
        if not items:
            return
        first = self._vectors.count
        self._vectors.append(vectors)
        self._catalog.add(first, items)

    def rename(self, row: int, *, name: str, label: str) -> None:
        """Give a picture that moved its new name."""
        self._catalog.rename(row, name=name, label=label)

    def outdated(self, seen: Sequence[tuple[str, bytes]]) -> list[int]:
        """The rows that are in under one of these names with another content than the one seen there."""
        return self._catalog.outdated(seen)

    def discard(self, rows: Sequence[int]) -> None:
        """Remove these rows."""
        self._catalog.remove(rows)
        self.refresh()

    def remove(self, name: str) -> int:
        """Remove the picture called ``name``, or all in the folder of that name; how many these were."""
        rows: set[int] = set()
        for each in {name, str(absolute(name))}:
            rows |= set(self._catalog.named(each, below=False)) | set(self._catalog.named(each, below=True))
        self.discard(sorted(rows))
        return len(rows)

    def finish(self, progress: Progress = lambda done, total: None) -> None:
        """Build, extend or drop the approximate part, as the number of pictures asks for."""
        card = self.card
        choice = approximate.choose(
            len(self), card.model.size, memory=card.memory, exact_up_to=card.exact_up_to
        )
        covered = card.approximate
        if choice.kind == "exact":
            if covered is not None:
                self._keep(None, "")
            return
        fits = covered is not None and covered.kind == choice.kind and covered.bytes <= card.memory
        if covered is not None and fits and self._vectors.count < 2 * covered.rows:
            if self._is_measured(covered) and self._vectors.count - covered.rows <= TAIL:
                return
            recipe = covered.recipe
            index = approximate.read(self.folder / card.approximate_file, covered, mapped=False)
            index.add(self._vectors)
        else:
            recipe = choice.recipe
            index = approximate.build(self._vectors, choice, progress=progress)
        recall, sample = approximate.tune(index, self._vectors, target=card.recall, removed=self._removed)
        file = self.folder / f"approximate-{choice.kind}-{index.rows}.faiss"
        facts = Approximation(
            kind=choice.kind,
            recipe=recipe,
            rows=index.rows,
            effort=index.effort,
            refine=index.refine,
            recall=recall,
            sample=sample,
            target=card.recall,
            bytes=index.write(file),
            removed=len(self._removed),
        )
        self._keep(facts, file.name)

    def _is_measured(self, covered: Approximation) -> bool:
        """Whether the recall was measured for what is aimed at now, among about the rows left now."""
        change = abs(len(self._removed) - covered.removed)
        return covered.target == self.card.recall and change <= REMEASURE * (covered.rows - covered.removed)

    def _keep(self, facts: Approximation | None, name: str) -> None:
        """Point the card at a new approximate part, then drop the old one."""
        self.card = self.card.model_copy(update={"approximate": facts, "approximate_file": name})
        write_index_card(self.folder, self.card)
        self._approximate = None
        for old in self.folder.glob("approximate-*.faiss"):
            if old.name != name:
                old.unlink()

    def close(self) -> None:
        """Close the catalogue."""
        self._catalog.close()


def open_index(folder: str | Path) -> LocalIndex:
    """The index in ``folder``, to search in; a writer may be at work meanwhile."""
    return LocalIndex(Path(folder))


@contextmanager
def writing(
    folder: str | Path,
    model: str | Path,
    *,
    memory: int | None = None,
    recall: float | None = None,
    exact_up_to: int | None = None,
) -> Iterator[LocalIndex]:
    """The index in ``folder``, made if it is missing, to be added to; one writer at a time.

    Args:
        folder: Empty, missing, or an index of the same model.
        model: The model folder; it is copied into a new index.
        memory: Bytes that the approximate part may take; 4 GB for a new index.
        recall: The recall at 10 that it aims at; 0.95 for a new index.
        exact_up_to: Up to so many pictures the search is exact; 200,000 for a new index.
    """
    home, card = Path(folder), read_card(model)
    if home.exists() and not is_index(home) and _is_somebody_elses(home):
        raise UsageError(f"{home} holds other files and is no index; choose an empty folder with -o")
    with disk_errors(home, remedy=REMEDY):
        make_folder(home)
    with _alone(home):
        if is_index(home):
            found = read_index_card(home)
            check_same_model(found.model, card, str(home))
        else:
            _copy_model(Path(model), home / MODEL)
            found = IndexCard(model=card, memory=MEMORY, recall=RECALL, shard_rows=SHARD_ROWS)
        wanted = {
            "memory": found.memory if memory is None else memory,
            "recall": found.recall if recall is None else recall,
            "exact_up_to": found.exact_up_to if exact_up_to is None else exact_up_to,
        }
        if not is_index(home) or any(getattr(found, key) != value for key, value in wanted.items()):
            write_index_card(home, found.model_copy(update=wanted))
        index = LocalIndex(home, write=True)
        try:
            yield index
        finally:
            index.close()


@contextmanager
def changing(folder: str | Path) -> Iterator[LocalIndex]:
    """An index that exists, to remove pictures from; one writer at a time."""
    home = Path(folder)
    read_index_card(home)
    with _alone(home):
        index = LocalIndex(home, write=True)
        try:
            yield index
        finally:
            index.close()


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    busy = f"another process is writing to {home}; wait until it has finished"
    with lock(home / LOCK, busy=busy, remedy=REMEDY):
        for left_behind in home.glob(".*.tmp"):  # by a process that was killed while writing
            left_behind.unlink()
        yield


def _is_somebody_elses(home: Path) -> bool:
    """Whether a folder without a card holds anything that a killed start of ours would not have left."""
    ours = {LOCK, MODEL, CARD}
    return any(file.name not in ours and not file.name.endswith(".tmp") for file in home.iterdir())


def _copy_model(source: Path, target: Path) -> None:
    with disk_errors(target, remedy=REMEDY):
        make_folder(target)
        for name in ("weights.safetensors", "model.json"):
            write_bytes(target / name, (source / name).read_bytes(), remedy=REMEDY)
        flush_folder(target)


def describe(index: LocalIndex) -> str:
    """How an index is searched, in a few words."""
    facts = index.card.approximate
    if facts is None:
        return "exact search"
    return (
        f"{facts.recipe}, recall at 10 of {facts.recall:.3f} against exact search on {facts.sample} queries, "
        f"{facts.bytes / 1e6:.0f} MB"
    )
