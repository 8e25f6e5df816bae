"""Pages that take seconds: reports, and experiments side by side.

A page is kept until the files of its experiments change. While it is computed, the browser already has the
first part of the page, which says so: the page is sent in pieces.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from markupsafe import Markup, escape

from levelfield.analysis import Analysis, analyze
from levelfield.core.errors import LevelfieldError, UsageError
from levelfield.reports import render_report, render_report_head
from levelfield.reports.web._experiment_states import ExperimentState
from levelfield.reports.web._html import (
    SETTINGS,
    choose_page,
    common_metrics,
    side_by_side_content,
    side_by_side_frame,
)

T = TypeVar("T")
MAX_PAGES, MAX_ANALYSES = 16, 16
WAIT = Markup('<p class="wait" role="status">{}</p>')  # hidden by the style sheet once something follows it


class Kept(Generic[T]):
    """Cache of the last few values. Threads that want the same value compute it once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[object, T] = {}
        self._locks: dict[object, threading.Lock] = {}
        self._lock = threading.Lock()

    def known(self, key: object) -> T | None:
        """Return a value that is in the cache."""
        with self._lock:
            return self._values.get(key)

    def get(self, key: object, compute: Callable[[], T]) -> T:
        """Return the value of a key; it is computed if it is not in the cache."""
        with self._lock:
            own = self._locks.setdefault(key, threading.Lock())
        with own:
            found = self.known(key)
            if found is None:
                found = compute()
            with self._lock:
                self._values.pop(key, None)
                self._values[key] = found  # last: used last
                while len(self._values) > self._limit:
                    oldest = next(iter(self._values))
                    del self._values[oldest]
                    self._locks.pop(oldest, None)
        return found


class SlowPages:
    """Reports and comparisons, as pieces of text for a streamed response."""

    def __init__(self) -> None:
        self._pages: Kept[str] = Kept(MAX_PAGES)
        self._analyses: Kept[Analysis] = Kept(MAX_ANALYSES)

    def report(self, state: ExperimentState) -> Iterator[str]:
        """Yield the report of an experiment, rendered from the current records."""
        key = ("report", state.key, state.version)
        if (known := self._pages.known(key)) is not None:
            yield known
            return
        if state.record is None:
            raise UsageError(state.problem)
        head = render_report_head(state.record.experiment, assets="/assets/")
        yield head + str(WAIT.format(f"Judging {len(state.methods)} methods for the report ..."))
        try:
            text = self._pages.get(
                key, lambda: render_report(analyze(state.root), assets="/assets/", home="/")
            )
        except LevelfieldError as error:
            yield _problem(error)
            return
        yield text.removeprefix(head)

    def side_by_side(
        self,
        chosen: Sequence[ExperimentState],
        states: Sequence[ExperimentState],
        metric: str | None,
        setting: str | None,
        search: bool,
    ) -> Iterator[str]:
        """Yield the page that compares experiments, as ``levelfield compare`` computes it."""
        if len(chosen) < 2:
            yield choose_page(states, search)
            return
        setting = setting if setting in SETTINGS else SETTINGS[0]
        metrics = common_metrics(chosen)
        if not metrics:
            raise UsageError("these experiments have no metric in common; choose others")
        metric = metric if metric in metrics else metrics[0]
        before, after = side_by_side_frame(search)
        yield before
        key = ("compare", tuple((state.key, state.version) for state in chosen), setting, metric)
        if (known := self._pages.known(key)) is not None:
            yield known + after
            return
        try:
            analyses = []
            for number, state in enumerate(chosen, 1):
                yield WAIT.format(f"Judging the methods of {state.name} ({number} of {len(chosen)}) ...")
                analyses.append(self._analysis(state, setting, metric))
            yield WAIT.format("Judging all experiments together ...")
            yield self._pages.get(key, lambda: side_by_side_content(chosen, analyses, metrics)) + after
        except LevelfieldError as error:
            yield _problem(error) + after

    def _analysis(self, state: ExperimentState, setting: str, metric: str) -> Analysis:
        return self._analyses.get(
            (state.key, state.version, setting, metric),
            lambda: analyze(state.root, setting=setting, metric=metric),
        )


def _problem(error: LevelfieldError) -> str:
    return f'<div class="warning">This page cannot be shown: {escape(str(error))}</div>'
