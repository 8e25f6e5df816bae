"""Run of a whole experiment: search, select, confirm. A second run continues the first.

All methods run concurrently. They wait for each other once: every method's selection is frozen before the
test set is opened for any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from levelfield import metrics
from levelfield.config import Experiment
from levelfield.core.errors import RunError, UsageError
from levelfield.engine import Engine, TorchrunEngine, create, is_rank_zero, started_by_torchrun
from levelfield.methods import Method
from levelfield.protocol._preregister import PlanCheck, check_plan
from levelfield.protocol.confirm._confirm import (
    TestSetBarrier,
    baseline_specs,
    feature_jobs,
    score_flow,
    train_flow,
)
from levelfield.protocol.confirm._gallery import gallery_flow
from levelfield.protocol.guard import record_feedback, record_frozen, seal_scores
from levelfield.protocol.schedule._flow import Flow, WaitForJobs, WaitUntil
from levelfield.protocol.schedule._progress import ProgressCallback, ProgressState
from levelfield.protocol.schedule._scheduler import Scheduler
from levelfield.protocol.search._proposals import trial_budget
from levelfield.protocol.search._search import search_flow, search_id, search_record
from levelfield.protocol.spec._resolve import resolve_experiment
from levelfield.protocol.spec._resolved import ResolvedExperiment
from levelfield.records import (
    ExperimentRecord,
    MetricInfo,
    NetworkIdentity,
    Revision,
    Selection,
    Store,
    default_directory,
    now,
    read_selection,
    remember_dataset_root,
    reuse_trials,
    select,
)
from levelfield.train import run_job


def run_protocol(
    experiment: Experiment,
    out: str | Path | None = None,
    *,
    progress: ProgressCallback | None = None,
    search_only: bool = False,
    plan: str | Path | None = None,
    depart: str | None = None,
    recorded: bool = False,
    reuse: Sequence[str | Path] = (),
) -> Path:
    """Run an experiment (search, select, confirm) and return its directory.

    Args:
        experiment: From :meth:`levelfield.Experiment.load` or ``build``.
        out: Experiment directory. Defaults to ``runs/<name>``. Finished work in it is not repeated.
        progress: Called with progress events.
        search_only: Stop when every selection is frozen and leave the test set closed; for a machine that
            only helps with a shared search.
        plan: Plan file; an experiment that departs from it is refused.
        depart: Reason of departures from the plan.
        recorded: The experiment is one of the records, which is run again as it was.
        reuse: Experiment directories or archives; their finished trials of the same searches are copied.
    """
    root = Path(out) if out is not None else default_directory(experiment.name)
    store = Store(root.absolute())  # workers may have another working directory
    resolved = resolve_experiment(experiment, recorded=recorded)
    planned = check_plan(resolved, store, plan, depart)
    sources = [_reused_store(directory) for directory in reuse]
    if started_by_torchrun():
        if experiment.engine.name not in ("local", "torchrun"):
            raise UsageError(
                f"torchrun cannot start engine {experiment.engine.name}; start it without torchrun"
            )
        with TorchrunEngine([run_job]).open() as ranks:
            if is_rank_zero():
                _run_flows(resolved, store, ranks, progress, planned, search_only=search_only, reuse=sources)
            else:
                ranks.follow()
        return root
    with create(experiment.engine) as engine:
        _run_flows(resolved, store, engine, progress, planned, search_only=search_only, reuse=sources)
    return root


def _run_flows(
    resolved: ResolvedExperiment,
    store: Store,
    engine: Engine,
    progress: ProgressCallback | None,
    planned: PlanCheck | None,
    *,
    search_only: bool,
    reuse: Sequence[Store],
) -> None:
    with store.open():
        _check_same_images(store, resolved)
        for source in reuse:
            reuse_trials(
                store,
                source,
                [search_record(r, method) for r in resolved.repeats for method in resolved.methods],
            )
        if planned is not None:
            planned.record(store)
        if resolved.experiment.dataset.root is not None:
            remember_dataset_root(store.root, resolved.experiment.dataset.root)
        _write_index(store, resolved, {})
        if resolved.leaky:
            record_feedback(store)
        progress_state = ProgressState(progress, slots=lambda: engine.slots)
        baseline = resolved.baseline
        searches = {
            _row(repeat, method): (repeat, method)
            for repeat in resolved.repeats
            for method in resolved.methods
        }
        barrier = TestSetBarrier((baseline, *searches))
        barrier.frozen[baseline] = store.freeze(_baseline_selection(resolved))
        flows = [
            _method_flow(repeat, method, store, barrier, progress_state, row=row, search_only=search_only)
            for row, (repeat, method) in searches.items()
        ]
        if not search_only:
            flows.insert(0, _baseline_flow(resolved, store, barrier, progress_state))
        Scheduler(engine, progress_state).run(flows)
        if search_only:
            _write_index(store, resolved, _selections(resolved, barrier))
            return
        seal_scores(store)
        Scheduler(engine, progress_state).run([gallery_flow(resolved, barrier.frozen[baseline], store)])


def _reused_store(directory: str | Path) -> Store:
    """Return the records whose trials are reused; raise UsageError if there are none."""
    source = Store(Path(directory))
    source.experiment_record()
    return source


def _baseline_flow(
    resolved: ResolvedExperiment, store: Store, barrier: TestSetBarrier, progress_state: ProgressState
) -> Flow[None]:
    """Wait until every selection is frozen, write them to the index, and score the baseline first."""
    specs = baseline_specs(resolved)
    row = resolved.baseline
    progress_state.add_row(row, len(specs))
    yield WaitUntil(barrier.is_open)
    selections = _selections(resolved, barrier)
    _write_index(store, resolved, selections)
    _check_any_selected({method.name: selections[method.name] for method in resolved.methods})
    record_frozen(store)
    yield from score_flow(
        resolved, store, barrier, progress_state, row=row, specs=specs, runs=[() for _ in specs]
    )
    progress_state.row_finished(row)


def _method_flow(
    resolved: ResolvedExperiment,
    method: Method,
    store: Store,
    barrier: TestSetBarrier,
    progress_state: ProgressState,
    *,
    row: str,
    search_only: bool,
) -> Flow[None]:
    """Search and select; then train and score the reruns, unless ``search_only``."""
    reruns, folds = resolved.experiment.confirm.reruns, resolved.num_folds
    identity = search_id(resolved, method)
    trials = min(len(store.trials(identity)), trial_budget(resolved, method))
    total = trial_budget(resolved, method) * folds + (0 if search_only else reruns * (folds + 1))
    progress_state.add_row(row, total, done=trials * folds, budget=trial_budget(resolved, method))
    yield WaitForJobs(feature_jobs(resolved))
    found = yield from search_flow(resolved, method, store, progress_state, row=row)
    selection = select(found, method=method.name, search=identity, sign=resolved.sign)
    file = store.freeze(selection)
    barrier.frozen[row] = file
    progress_state.selection_frozen(row, selection.score, selection.failed or "")
    if search_only:
        progress_state.row_finished(row)
        return
    if selection.failed is None:
        specs = yield from train_flow(resolved, method, selection.hyperparameters, store, row=row)
        runs = [tuple(store.run(spec.run_id).path for spec in group) for group in specs]
        yield from score_flow(resolved, store, barrier, progress_state, row=row, specs=specs, runs=runs)
    else:  # the report shows the reason; the other methods continue
        yield WaitUntil(lambda: barrier.is_turn_of(row))
        barrier.passed += 1
    progress_state.row_finished(row)


def _row(resolved: ResolvedExperiment, method: Method) -> str:
    """Return the row name of a method, with the number of the search if there are several."""
    repeats = resolved.experiment.search.repeats
    return f"{method.name} ({resolved.repeat + 1} of {repeats})" if repeats > 1 else method.name


def _selections(resolved: ResolvedExperiment, barrier: TestSetBarrier) -> dict[str, list[Path]]:
    """Return the files of all frozen selections by method; the baseline has one."""
    found = {
        method.name: [barrier.frozen[_row(repeat, method)] for repeat in resolved.repeats]
        for method in resolved.methods
    }
    return {**found, resolved.baseline: [barrier.frozen[resolved.baseline]]}


def _check_any_selected(files: Mapping[str, list[Path]]) -> None:
    """Raise if every search failed, so that the test set stays closed."""
    chosen = {name: [read_selection(file) for file in found] for name, found in files.items()}
    if all(selection.failed for found in chosen.values() for selection in found):
        name, (first, *_) = next(iter(chosen.items()))
        raise RunError(
            f"every trial of {name if len(chosen) == 1 else 'every method'} failed ({first.failed}); "
            "lower the learning rate or narrow the search ranges"
        )


def _baseline_selection(resolved: ResolvedExperiment) -> Selection:
    """Return the selection of the untrained network: the identity of everything that its scores depend on."""
    network = NetworkIdentity(
        data=resolved.data,
        trunk=resolved.trunk,
        head=resolved.experiment.head.model_copy(update={"normalize": True}),  # scored by cosine similarity
        transform=resolved.transform,
        seed=resolved.experiment.seed,
        start="epoch 0" if resolved.baseline_is_epoch_0 else "features",
    )
    return Selection(method=resolved.baseline, network=network)


def _recorded_contents(store: Store) -> dict[str, str]:
    if not (store.root / "experiment.json").exists():
        return {}
    return store.experiment_record().contents


def _check_same_images(store: Store, resolved: ResolvedExperiment) -> None:
    """Raise if images of the dataset were replaced since its first run in this directory.

    The fingerprint of a published list of files covers names and sizes, so a replaced image of the same size
    has the same run identities. Its results must not be mixed with those of the old image.
    """
    recorded = _recorded_contents(store).get(resolved.data.fingerprint)
    found = resolved.resources.dataset_content
    if recorded is not None and found != recorded:
        raise RunError(
            f"images of dataset {resolved.data.name} have changed since {store.root} was begun (content "
            f"{found[:16]}, was {recorded[:16]}); restore them, or use a new --out directory"
        )


def _write_index(store: Store, resolved: ResolvedExperiment, selections: dict[str, list[Path]]) -> None:
    """Write the index that reports read, and record a revision if the experiment changed."""
    experiment, content = resolved.experiment, resolved.resources.dataset_content
    contents = {resolved.data.fingerprint: content} if content else {}
    names = dict.fromkeys((*experiment.metrics, experiment.training.metric))
    record = ExperimentRecord(
        experiment=experiment,
        split=resolved.split_description,
        leaky=resolved.leaky,
        baseline=resolved.baseline,
        metrics=tuple(_metric_info(name) for name in names),
        searches={
            method.name: tuple(search_id(repeat, method) for repeat in resolved.repeats)
            for method in resolved.methods
        },
        selections={name: tuple(file.stem for file in files) for name, files in selections.items()},
        plugins=dict(resolved.plugins),
        notes=resolved.notes,
        contents=_recorded_contents(store) | contents,
    )
    store.append_revision(
        Revision(time=now(), experiment=experiment, plugins=record.plugins, stated=record.stated())
    )
    store.write_experiment_record(record)


def _metric_info(name: str) -> MetricInfo:
    card = metrics.card(name)
    return MetricInfo(name=name, label=card.label, unit=card.unit, higher_is_better=card.higher_is_better)
