"""Check for dropped results: reruns, searches and methods that were tested and then left out."""

from __future__ import annotations

from collections.abc import Iterator

from levelfield.analysis._results import Comparison, MethodResult
from levelfield.records import Search, Store


def check_dropped_results(store: Store, comparison: Comparison) -> Iterator[str]:
    """Yield one sentence for each dropped method, and for the dropped reruns and searches of each method."""
    confirmed = store.confirmed()
    names = {result.method for result in comparison.results}
    selections = store.selections().values()
    for name in sorted({s.method for s in selections if s.selection_id in confirmed} - names):
        yield f"{name} was scored on the test set and is left out"
    for result in comparison.results:
        for repeat in result.repeats:
            unread = sorted(set(confirmed.get(repeat.confirmation, ())) - set(repeat.reruns))
            if unread:
                shown = ", ".join(str(number + 1) for number in unread)
                yield f"rerun {shown} of {result.method} was scored on the test set and is left out"
    scored = {
        m for r in comparison.results for repeat in r.repeats for x in repeat.scored for m in x.concatenated
    }
    for metric in sorted(scored - {*comparison.metrics, comparison.experiment.training.metric}):
        yield f"metric {metric} was scored on the test set and is left out"
    for result in comparison.trained:
        dropped = sorted(_find_dropped_searches(store, result, set(confirmed)))
        if dropped:
            shown = ", ".join(str(number + 1) for number in dropped)
            yield f"search {shown} of {result.method} was scored on the test set and is left out"


def _find_dropped_searches(store: Store, result: MethodResult, confirmed: set[str]) -> set[int]:
    """Return the numbers of confirmed searches of the method that the experiment no longer has."""
    counted = {repeat.selection.search for repeat in result.repeats}
    searches = [repeat.search for repeat in result.repeats if repeat.search is not None]
    recipes = [_without_repeat_number(search) for search in searches]
    found = set()
    for selection in store.selections().values():
        if selection.search is None or selection.search in counted or selection.selection_id not in confirmed:
            continue
        search = store.search(selection.search)
        if search is not None and _without_repeat_number(search) in recipes:
            found.add(search.repeat)
    return found


def _without_repeat_number(search: Search) -> Search:
    return search.model_copy(update={"repeat": 0})
