"""Pages that take seconds are sent in pieces, and kept until the files change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from levelfield.core.errors import RunError, UsageError
from levelfield.reports.web import ExperimentMonitor, ExperimentState, _slow_pages
from levelfield.reports.web._slow_pages import Kept, SlowPages

Writer = Callable[..., Path]


@pytest.fixture
def states(write_experiment: Writer, tmp_path: Path) -> list[ExperimentState]:
    for name in ("one", "two"):
        write_experiment(name, reruns=2, queries=60, trials=2)
    return ExperimentMonitor([tmp_path]).states()


def test_a_report_says_that_it_is_computed_and_is_then_kept(states: list[ExperimentState]) -> None:
    pages = SlowPages()
    first, rest = pages.report(states[0])
    assert first.startswith("<!doctype html>") and first.count('class="wait"') == 1
    (kept,) = pages.report(states[0])
    assert first.partition('<p class="wait"')[0] + rest == kept and kept.endswith("</html>")
    changed = replace(states[0], version="other")
    assert len(list(pages.report(changed))) == 2, "new files make a new page"


def test_side_by_side_names_each_step_and_is_then_kept(states: list[ExperimentState]) -> None:
    pages = SlowPages()
    pieces = list(pages.side_by_side(states, states, None, None, False))
    assert [piece.count('class="wait"') for piece in pieces] == [0, 1, 1, 1, 0]
    assert "(2 of 2)" in pieces[2] and "told apart" in pieces[-1]
    again = list(pages.side_by_side(states, states, "map_at_r", "concatenated", False))
    assert again == [pieces[0], pieces[-1]]
    assert len(list(pages.side_by_side(states, states, "precision_at_1", None, False))) == 5


def test_an_error_while_a_page_is_computed_is_shown_on_it(
    states: list[ExperimentState], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RunError("a <file> is damaged")

    monkeypatch.setattr(_slow_pages, "analyze", fail)
    pages = SlowPages()
    for pieces in (pages.report(states[0]), pages.side_by_side(states, states, None, None, False)):
        assert "cannot be shown: a &lt;file&gt; is damaged" in list(pieces)[-1]
    with pytest.raises(UsageError, match="broken"):
        next(pages.report(replace(states[0], record=None, problem="broken")))


def test_threads_that_want_the_same_compute_it_once() -> None:
    kept: Kept[int] = Kept(limit=2)
    computed, started = [], threading.Barrier(4)

    def compute() -> int:
        computed.append(1)
        return 7

    def ask(found: list[int]) -> None:
        started.wait()
        found.append(kept.get("a", compute))

    found: list[int] = []
    threads = [threading.Thread(target=ask, args=(found,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [7] * 4 and computed == [1]
    kept.get("b", lambda: 8)
    kept.get("a", compute)
    kept.get("c", lambda: 9)
    assert kept.known("b") is None and kept.known("a") == 7, "the one used longest ago goes"
