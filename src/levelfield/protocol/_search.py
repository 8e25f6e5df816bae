"""The search: trials of one method, each one run per fold, scored by the mean validation metric."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from levelfield.engine import Runner
from levelfield.errors import RunError
from levelfield.methods import Method
from levelfield.protocol._optimise import Observation, suggest
from levelfield.protocol._resolve import Resolved
from levelfield.records import RunResult, Store, digest, write_json
from levelfield.seeds import seed_for
from levelfield.space import Value, describe
from levelfield.train import RunJob, run_job

Trial = dict[str, Any]


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
        }
    )


def run_search(
    resolved: Resolved, method: Method, store: Store, engine: Runner, *, on_run: Callable[[], None]
) -> list[Trial]:
    """Finish the search of one method; trials that are on record are not run again.

    Trials go in rounds of ``search.parallel``. What a round tries depends on the rounds before only, so the
    outcome is the same however often the search is interrupted.
    """
    settings = resolved.experiment.search
    identity = search_id(resolved, method)
    trials = store.trials(identity)
    while len(trials) < settings.trials:
        start = len(trials) - len(trials) % settings.parallel
        round_points = _propose(resolved, method, trials[:start], start)
        wanted = [
            (number, point)
            for number, point in enumerate(round_points, start)
            if len(trials) <= number < settings.trials
        ]
        if not wanted:
            break  # the grid, or an empty space, is used up
        jobs = [job for number, point in wanted for job in _jobs(resolved, method, store, number, point)]
        results = engine.map(run_job, jobs, on_done=on_run)
        for index, (number, point) in enumerate(wanted):
            part = slice(index * resolved.num_folds, (index + 1) * resolved.num_folds)
            trial = _record(resolved, number, point, jobs[part], results[part])
            write_json(store.trial_file(identity, number), trial)
            trials.append(trial)
    return trials[: settings.trials]


def _propose(resolved: Resolved, method: Method, trials: list[Trial], start: int) -> list[dict[str, Value]]:
    """The points of one round. Points of the same round see each other with the mean score so far."""
    settings = resolved.experiment.search
    observed = [Observation(trial["hyperparameters"], trial["score"]) for trial in trials]
    scores = [seen.score for seen in observed if seen.score is not None]
    stand_in = sum(scores) / len(scores) if scores else None
    points: list[dict[str, Value]] = []
    for number in range(start, start + settings.parallel):
        if number == 0 and settings.first == "defaults":
            defaults = method.defaults(resolved.experiment.dataset.name)
            if defaults.keys() == method.space.keys():
                points.append(defaults)
                continue
        point = suggest(
            method.space,
            [*observed, *(Observation(point, stand_in) for point in points)],
            sampler=settings.sampler,
            seed=seed_for(resolved.experiment.seed, "search"),
            number=number,
        )
        if point is None:
            break
        points.append(point)
    return points


def _jobs(
    resolved: Resolved, method: Method, store: Store, number: int, point: dict[str, Value]
) -> list[RunJob]:
    jobs = []
    for fold in range(resolved.num_folds):
        seed = resolved.seed("search", number, fold)
        spec = resolved.run_spec(method, point, fold=fold, seed=seed)
        jobs.append(RunJob(spec, resolved.resources, store.run(spec.run_id).path))
    return jobs


def _record(
    resolved: Resolved, number: int, point: dict[str, Value], jobs: list[RunJob], results: list[RunResult]
) -> Trial:
    """A trial is complete if every fold is; a diverged fold makes it a failed one, with its reason."""
    metric = resolved.experiment.training.metric
    reasons = [f"fold {fold}: {r.reason}" for fold, r in enumerate(results) if r.status != "complete"]
    scores = [result.validation.get(metric) for result in results]
    complete = [score for score in scores if score is not None]
    return {
        "number": number,
        "hyperparameters": point,
        "runs": [job.spec.run_id for job in jobs],
        "fold_scores": scores,
        "score": None if reasons else sum(complete) / len(complete),
        "reason": "; ".join(reasons),
    }


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
