"""The search: trials of one method, each one run per fold, scored by the mean validation metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from levelfield.engine import Runner
from levelfield.errors import RunError
from levelfield.methods import Method
from levelfield.protocol._proposals import Point, Trial, propose
from levelfield.protocol._resolve import Resolved
from levelfield.protocol._shared import run_shared_search
from levelfield.protocol._trials import run_trials
from levelfield.records import Store, digest, write_json
from levelfield.space import describe


def search_id(resolved: Resolved, method: Method) -> str:
    """What names a search: everything that its trials depend on, but not how many there are to be.

    So 30 more trials can be added to 50.
    """
    template = resolved.run_spec(method, {}, fold=0, seed=resolved.experiment.seed)
    settings = resolved.experiment.search
    return digest(
        {
            "run": template.model_dump(mode="json"),
            "space": {name: describe(dimension) for name, dimension in method.space.items()},
            "sampler": settings.sampler,
            "first": settings.first,
            "parallel": settings.parallel,
            **({"prune": True} if settings.prune else {}),
        }
    )


def run_search(
    resolved: Resolved, method: Method, store: Store, engine: Runner, *, on_run: Callable[[], None]
) -> list[Trial]:
    """Finish the search of one method; trials that are on record are not run again.

    Trials go in rounds of ``search.parallel``. What a round tries depends on the rounds before only, so the
    outcome is the same however often the search is interrupted.
    """
    identity = search_id(resolved, method)
    if resolved.experiment.search.storage is not None:
        return run_shared_search(resolved, method, store, engine, search=identity, on_run=on_run)
    trials = store.trials(identity)
    while wanted := next_round(resolved, method, trials):
        earlier = trials[: _round_start(resolved, trials)]
        for trial in run_trials(resolved, method, store, engine, wanted, earlier=earlier, on_run=on_run):
            write_json(store.trial_file(identity, trial["number"]), trial)
            trials.append(trial)
    return trials[: resolved.experiment.search.trials]


def next_round(resolved: Resolved, method: Method, trials: list[Trial]) -> list[tuple[int, Point]]:
    """The trials to do next, or the rest of a round that was interrupted; none when the search is done."""
    settings = resolved.experiment.search
    if len(trials) >= settings.trials:
        return []
    start = _round_start(resolved, trials)
    points = propose(resolved, method, range(start, start + settings.parallel), finished=trials[:start])
    return [
        (number, point)
        for number, point in enumerate(points, start)
        if len(trials) <= number < settings.trials
    ]


def _round_start(resolved: Resolved, trials: list[Trial]) -> int:
    return len(trials) - len(trials) % resolved.experiment.search.parallel


def select(trials: list[Trial], *, method: str, search: str) -> dict[str, Any]:
    """The frozen choice: a pure function of the trials. The first of equally good trials wins.

    Example:
        >>> scores = enumerate([0.1, 0.3, 0.2])
        >>> trials = [{"number": n, "hyperparameters": {"margin": n}, "score": s} for n, s in scores]
        >>> select(trials, method="triplet", search="0" * 16)["hyperparameters"]
        {'margin': 1}
    """
    complete = [trial for trial in trials if trial["score"] is not None]
    if not complete:
        reason = trials[0]["reason"] if trials else "there are no trials"
        raise RunError(
            f"every trial of {method} failed ({reason}); lower the learning rate or narrow the search ranges"
        )
    best = max(complete, key=lambda trial: (trial["score"], -trial["number"]))
    return {
        "method": method,
        "search": search,
        "trial": best["number"],
        "hyperparameters": best["hyperparameters"],
        "score": best["score"],
    }
