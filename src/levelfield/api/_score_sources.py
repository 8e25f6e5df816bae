"""Scores of one embedding source after the other, on the same items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from levelfield.analysis import ModelScores
from levelfield.api._model_sources import Source
from levelfield.api._named_lists import NamedLists
from levelfield.api._same_items import Items, count_duplicates
from levelfield.core.errors import LevelfieldError
from levelfield.metrics import Scores
from levelfield.metrics import evaluate as score
from levelfield.metrics.files import EmbeddingFile

Progress = Callable[[int, int], None]


class SourceScoring:
    """Scoring of one source after the other; remembers the items, and the reasons of failures.

    Attributes:
        items: Items of the queries, from the first source that could be scored.
        gallery_items: Items that are searched; None if the queries are searched.
        relevant: Relevant gallery rows of each query; None if classes decide.
        ignored: Ignored gallery rows of each query; None without any.
        left_out: Reason for each source that has no scores.
        notes: Remarks, one sentence each.
    """

    def __init__(
        self,
        metrics: Sequence[str],
        options: Mapping[str, Any],
        progress: Callable[[str], Progress] | None,
        *,
        lists: NamedLists | None = None,
    ) -> None:
        self._metrics, self._options, self._progress, self._lists = metrics, dict(options), progress, lists
        self.items: Items | None = None
        self.gallery_items: Items | None = None
        self.relevant: Sequence[Any] | None = self._options.pop("relevant", None)
        self.ignored: Sequence[Any] | None = self._options.pop("ignore", None)
        self.left_out: dict[str, str] = {}
        self.notes: list[str] = []

    def attempt(self, source: Source, held: Source | None) -> Scores | None:
        """Return the scores of a source; None, with the reason in ``left_out``, if it has none."""
        try:
            return self.score(source, held)
        except LevelfieldError as error:
            text = str(error)
            self.left_out[source.name] = text if source.name in text else f"{source.name}: {text}"
            return None

    def asked(self, source: Source) -> Source:
        """Return the source with its rows chosen by the lists, if there are any."""
        return Source(source.name, partial(self._load, source))

    def held(self, source: Source) -> Source:
        """Return the source of a gallery. With lists it needs no classes."""
        return Source(source.name, partial(self._load_held, source))

    def score(self, source: Source, held: Source | None) -> Scores:
        """Return the scores of a source, whose gallery is ``held``."""
        items, found = self._align(self.items, self._load(source), source.name)
        chosen, gallery = self.gallery_items, None
        if held is not None:
            chosen, gallery = self._align(chosen, self._load_held(held), held.name)
        relevant, ignored = self.relevant, self.ignored
        if self._lists is not None and chosen is not None:
            relevant, ignored = self._lists.rows(chosen.ids)
        by_class = gallery is not None and relevant is None
        scores = score(
            found.embeddings,
            found.labels,
            metrics=self._metrics,
            gallery=None if gallery is None else gallery.embeddings,
            gallery_labels=gallery.labels if gallery is not None and by_class else None,
            relevant=relevant,
            ignore=ignored,
            per_query=True,
            progress=None if self._progress is None else self._progress(source.name),
            **self._options,
        )
        # only a source that can be scored is the reference
        self.items, self.gallery_items, self.relevant, self.ignored = items, chosen, relevant, ignored
        self._note(scores, found, source.name, alone=held is None)
        return scores

    def _load(self, source: Source) -> EmbeddingFile:
        found = source.load()
        if self._lists is not None:
            return self._lists.queries_of(found, source.name)
        return found if self.relevant is None else _with_labels(found, np.arange)  # each query is a unit

    def _load_held(self, source: Source) -> EmbeddingFile:
        found = source.load()
        if self._lists is not None:
            return self._lists.searched_of(found, source.name)
        return found if self.relevant is None else _with_labels(found, np.zeros)

    def _align(self, items: Items | None, found: EmbeddingFile, name: str) -> tuple[Items, EmbeddingFile]:
        if items is None:
            return Items.of(found, name), found
        found, moved = items.align(found, name)
        if moved:
            self.notes.append(f"The rows of {name} were put in the order of {items.source}, by their ids.")
        return items, found

    def _note(self, scores: Scores, found: EmbeddingFile, name: str, *, alone: bool) -> None:
        copies = count_duplicates(found.embeddings) if alone else 0
        if copies:
            self.notes.append(f"{name}: {copies} rows repeat another row exactly; a copy is found first.")
        skipped = f"{scores.skipped} queries without a relevant item were left out."
        found_notes = [skipped] if scores.skipped else []
        found_notes += [f"{note}." for note in scores.notes]
        self.notes += [note for note in found_notes if note not in self.notes]


def _with_labels(found: EmbeddingFile, make: Callable[[int], Any]) -> EmbeddingFile:
    """Return the embeddings with labels; those that they have, or made ones."""
    if found.labels is not None or not getattr(found.embeddings, "ndim", 0):
        return found
    return replace(found, labels=make(len(found.embeddings)).astype(np.int64))


def stack_scores(found: Sequence[Scores]) -> ModelScores:
    """Return the scores of the seeds of one model."""
    per_query = {name: np.stack([each.per_query[name] for each in found]) for name in found[0].per_query}
    whole = {name: np.array([each[name] for each in found]) for name in found[0] if name not in per_query}
    return ModelScores(per_query, whole)
