"""What was scored on the test set and is not counted: reruns and searches that were dropped after a look."""

from __future__ import annotations

from collections.abc import Iterator

from levelfield.compare._results import Comparison, Result
from levelfield.records import Search, Store, read_selection


def left_out(store: Store, comparison: Comparison) -> Iterator[str]:
    """One sentence for the dropped reruns, one for the dropped searches of each method; dropped methods."""
    confirmed = store.confirmed()
    names = {result.method for result in comparison.results}
    selections = [read_selection(file) for file in store.selection_files()]
    for name in sorted({s.method for s in selections if s.selection_id in confirmed} - names):
        yield f"{name} was scored on the test set and is left out"
    for result in comparison.results:
        for repeat in result.repeats:
            unread = sorted(set(confirmed.get(repeat.confirmation, ())) - set(repeat.reruns))
            if unread:
                shown = ", ".join(str(number + 1) for number in unread)
                yield f"rerun {shown} of {result.method} was scored on the test set and is left out"
    for result in comparison.trained:
        dropped = sorted(_dropped_searches(store, result, set(confirmed)))
        if dropped:
            shown = ", ".join(str(number + 1) for number in dropped)
            yield f"search {shown} of {result.method} was scored on the test set and is left out"


def _dropped_searches(store: Store, result: Result, confirmed: set[str]) -> set[int]:
    """Numbers of confirmed searches of the same method that the experiment no longer has."""
    counted = {repeat.selection.search for repeat in result.repeats}
    recipes = [_without_number(repeat.search) for repeat in result.repeats if repeat.search is not None]
    found = set()
    for file in store.selection_files():
        selection = read_selection(file)
        if selection.search is None or selection.search in counted or selection.selection_id not in confirmed:
            continue
        search = store.search(selection.search)
        if search is not None and _without_number(search) in recipes:
            found.add(search.repeat)
    return found


def _without_number(search: Search) -> Search:
    return search.model_copy(update={"repeat": 0})
