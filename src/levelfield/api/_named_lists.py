"""Lists of relevant items for embeddings in files, which name their items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.api._same_items import as_text
from levelfield.core.errors import UsageError
from levelfield.data.datasets.relevance import read_relevance
from levelfield.data.listed_queries import ListedQuery, listed_rows
from levelfield.metrics.files import EmbeddingFile

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class NamedLists:
    """Queries with the names of their relevant and ignored items.

    Attributes:
        file: Where the lists are from, for errors.
        queries: Queries; their groups are the units of the statistics.
        searched: Names of the items that are searched; None for all that can be.
        together: Whether queries and searched items are in one file; items that are only queries are then
            not searched.
    """

    file: str
    queries: Sequence[ListedQuery]
    searched: Sequence[str] | None = None
    together: bool = False

    @classmethod
    def read(cls, file: Path, *, together: bool) -> NamedLists:
        """Return the lists of a JSON or CSV file, which the dataset ``relevance`` describes."""
        queries, searched = read_relevance(file)
        if not queries:
            raise UsageError(f"{file} lists no queries; add some")
        _check_distinct([query.image for query in queries], file, "as a query")
        _check_distinct(searched or (), file, "in the gallery")
        return cls(str(file), queries, searched, together)

    def queries_of(self, found: EmbeddingFile, name: str) -> EmbeddingFile:
        """Return the rows of the queries, in the order of the lists, with their groups as labels."""
        groups = [query.group or f"query {number}" for number, query in enumerate(self.queries, start=1)]
        return self._select(found, [query.image for query in self.queries], name, labels=np.array(groups))

    def searched_of(self, found: EmbeddingFile, name: str) -> EmbeddingFile:
        """Return the rows that are searched."""
        wanted = self.searched
        if wanted is None:
            listed = {item for query in self.queries for item in (*query.relevant, *query.ignored)}
            only_queries = {query.image for query in self.queries} - listed if self.together else set()
            wanted = [item for item in _names(found, name) if item not in only_queries]
        return self._select(found, wanted, name, labels=np.zeros(len(wanted), dtype=np.int64))

    def rows(self, searched: Iterable[str] | None) -> tuple[list[list[int]], list[list[int]]]:
        """Return the relevant and the ignored rows of each query, among the searched items of these names."""
        assert searched is not None, "searched items are chosen by name"
        row = {str(name): number for number, name in enumerate(searched)}
        found = [listed_rows(query, row, self.file) for query in self.queries]
        if not any(relevant for relevant, _ in found):
            raise UsageError(f"{self.file}: no query has a relevant item; list some")
        return [relevant for relevant, _ in found], [ignored for _, ignored in found]

    def _select(
        self, found: EmbeddingFile, wanted: Sequence[str], name: str, *, labels: Array
    ) -> EmbeddingFile:
        row = {item: number for number, item in enumerate(_names(found, name))}
        if len(row) < len(found.embeddings):
            _check_distinct(_names(found, name), name, "as a name")
        missing = next((item for item in wanted if item not in row), None)
        if missing is not None:
            raise UsageError(f'{name} has no item "{missing}", {self.file} lists it; embed all of its items')
        order = np.array([row[item] for item in wanted], dtype=np.int64)
        whole = np.array_equal(order, np.arange(len(found.embeddings)))
        embeddings = found.embeddings if whole else found.embeddings[order]
        return EmbeddingFile(embeddings, labels, np.array(wanted, dtype=str))


def _names(found: EmbeddingFile, name: str) -> list[str]:
    if found.ids is None:
        raise UsageError(
            f'{name} names no items; save their names as "ids" or "paths", as the lists have them'
        )
    if getattr(found.embeddings, "ndim", 0) != 2 or found.ids.shape != (len(found.embeddings),):
        raise UsageError(f"{name} has ids of shape {found.ids.shape}; give one id per row of embeddings")
    names: list[str] = as_text(found.ids).tolist()
    return names


def _check_distinct(names: Sequence[str], file: object, what: str) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise UsageError(f'{file} holds "{twice}" {what} twice; remove one')
