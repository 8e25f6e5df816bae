"""The search: trials of one method with one run per fold, scored by the mean validation metric."""

from __future__ import annotations

from levelfield.methods import Method
from levelfield.protocol.schedule._flow import Flow, Job, WaitForFlows, WaitForJobs
from levelfield.protocol.schedule._progress import ProgressState
from levelfield.protocol.search._proposals import (
    ProposalRequest,
    SearchPoint,
    compute_proposals,
    proposal_request,
    trial_budget,
)
from levelfield.protocol.search._shared import shared_search
from levelfield.protocol.search._trials import drop_weights, trial_flow
from levelfield.protocol.spec._resolve import first_search_point
from levelfield.protocol.spec._resolved import ResolvedExperiment, method_source
from levelfield.records import Search, Store, Trial, space_record


def search_record(resolved: ResolvedExperiment, method: Method) -> Search:
    """Return the record of a method's search: everything that its trials depend on."""
    settings, length = resolved.experiment.search, resolved.search_training.max_epochs
    return Search(
        run=resolved.run_spec(method, {}, fold=0, seed=resolved.experiment.seed),
        space=space_record(method.space),
        sampler=settings.sampler,
        first=settings.first,
        first_point=first_search_point(resolved.experiment, method),
        parallel=settings.parallel,
        prune=settings.prune,
        max_epochs=None if length == resolved.experiment.training.max_epochs else length,
        method_source=method_source(method),
        repeat=resolved.repeat,
    )


def search_id(resolved: ResolvedExperiment, method: Method) -> str:
    """Return the digest of a method's search; see :class:`levelfield.records.Search`."""
    return search_record(resolved, method).search_id


def search_flow(
    resolved: ResolvedExperiment, method: Method, store: Store, progress_state: ProgressState, *, row: str
) -> Flow[list[Trial]]:
    """Finish the search of one method; recorded trials are not run again.

    Trials run in rounds of ``search.parallel``. The hyperparameters of a round depend on earlier rounds only,
    so interruptions do not change the result.
    """
    search = search_record(resolved, method)
    identity = search.search_id
    store.write_search(search)
    settings = resolved.experiment.search
    if settings.storage is not None:
        return (yield from shared_search(resolved, method, store, progress_state, search=identity, row=row))
    trials = store.trials(identity)
    drop_weights(resolved, store, trials)  # a kill may have left some
    for trial in trials:
        progress_state.trial_finished(row, trial, sign=resolved.sign, earlier=True)
    while len(trials) < settings.trials:
        request = _next_request(resolved, method, trials)
        rounds_left = (trial_budget(resolved, method) - request.numbers[0]) / settings.parallel
        if request.is_quick:
            points = compute_proposals(request)
        else:
            key = f"propose {identity} {request.numbers[0]}"
            (points,) = yield WaitForJobs(
                [Job(key, compute_proposals, request, row, "propose", priority=rounds_left + 0.5)]
            )
        wanted = _missing_trials(resolved, request, points, trials)
        if not wanted:
            break  # the grid, or an empty space, is used up
        earlier = trials[: request.numbers[0]]
        flows = [
            trial_flow(resolved, method, store, number, point, earlier=earlier, row=row, priority=rounds_left)
            for number, point in wanted
        ]
        for trial in (yield WaitForFlows(flows)):
            store.write_trial(identity, trial)
            drop_weights(resolved, store, [trial])
            trials.append(trial)
            progress_state.trial_finished(row, trial, sign=resolved.sign)
    return trials[: settings.trials]


def pending_trials(
    resolved: ResolvedExperiment, method: Method, trials: list[Trial]
) -> list[tuple[int, SearchPoint]]:
    """Return the trials of the current round that are not recorded yet; none when the search is finished."""
    if len(trials) >= resolved.experiment.search.trials:
        return []
    request = _next_request(resolved, method, trials)
    return _missing_trials(resolved, request, compute_proposals(request), trials)


def _next_request(resolved: ResolvedExperiment, method: Method, trials: list[Trial]) -> ProposalRequest:
    """Return the request for the round of the next trial; it depends on earlier rounds only."""
    parallel = resolved.experiment.search.parallel
    start = len(trials) - len(trials) % parallel
    return proposal_request(resolved, method, range(start, start + parallel), finished=trials[:start])


def _missing_trials(
    resolved: ResolvedExperiment, request: ProposalRequest, points: list[SearchPoint], trials: list[Trial]
) -> list[tuple[int, SearchPoint]]:
    """Return the trials of a round that are not recorded yet."""
    return [
        (number, point)
        for number, point in zip(request.numbers, points, strict=False)
        if len(trials) <= number < resolved.experiment.search.trials
    ]
