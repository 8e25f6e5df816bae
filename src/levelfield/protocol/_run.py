"""The whole flow: search, select, confirm. Start it again and it goes on where it was.

All methods go on at once. There is one place where they wait for each other: every method's selection is
frozen before the test set is opened for any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from levelfield import metrics
from levelfield.config import Experiment
from levelfield.engine import Runner, TorchrunEngine, create, is_chief, started_by_torchrun
from levelfield.errors import RunError, UsageError
from levelfield.methods import Method
from levelfield.protocol._confirm import Gate, baseline_specs, feature_jobs, score_flow, train_flow
from levelfield.protocol._flow import Flow, Jobs, Until
from levelfield.protocol._gallery import gallery_flow
from levelfield.protocol._progress import Board, Progress
from levelfield.protocol._proposals import budget
from levelfield.protocol._resolve import resolve
from levelfield.protocol._resolved import Resolved
from levelfield.protocol._schedule import Schedule
from levelfield.protocol._search import search_flow, search_id
from levelfield.protocol.guard import record_feedback, seal_scores
from levelfield.records import (
    Index,
    Measure,
    NetworkIdentity,
    Revision,
    Selection,
    Store,
    now,
    read_selection,
    select,
)
from levelfield.train import run_job


def run(
    experiment: Experiment,
    out: str | Path | None = None,
    *,
    progress: Progress | None = None,
    search_only: bool = False,
) -> Path:
    """Carry out an experiment: search, select, confirm. Returns the folder of its records.

    Args:
        experiment: From :meth:`levelfield.Experiment.load` or ``build``.
        out: The folder of records; ``runs/<name>`` by default. What it holds already is not computed again.
        progress: Is told what happens.
        search_only: Stop when every selection is frozen, with the test set closed: for a machine that only
            helps with a shared search.
    """
    root = Path(out) if out is not None else Path("runs") / experiment.name
    store = Store(root.absolute())  # jobs name their files wherever they are carried out
    resolved = resolve(experiment)
    if started_by_torchrun():
        if experiment.engine.name not in ("local", "torchrun"):
            raise UsageError(
                f"torchrun cannot start engine {experiment.engine.name}; start it without torchrun"
            )
        with TorchrunEngine([run_job]).open() as ranks:
            if is_chief():
                _carry_out(resolved, store, ranks, progress, search_only=search_only)
            else:
                ranks.follow()
        return root
    with create(experiment.engine) as engine:
        _carry_out(resolved, store, engine, progress, search_only=search_only)
    return root


def _carry_out(
    resolved: Resolved, store: Store, engine: Runner, progress: Progress | None, *, search_only: bool
) -> None:
    with store.open():
        _write_index(store, resolved, {})
        if resolved.leaky:
            record_feedback(store)
        board = Board(progress, slots=lambda: engine.slots)
        baseline = resolved.baseline
        searches = {
            _row(repeat, method): (repeat, method)
            for repeat in resolved.repeats
            for method in resolved.methods
        }
        gate = Gate((baseline, *searches))
        gate.frozen[baseline] = store.freeze(_baseline_selection(resolved))
        flows = [
            _method_flow(repeat, method, store, gate, board, row=row, search_only=search_only)
            for row, (repeat, method) in searches.items()
        ]
        if not search_only:
            flows.insert(0, _baseline_flow(resolved, store, gate, board))
        Schedule(engine, board).run(flows)
        if search_only:
            _write_index(store, resolved, _selections(resolved, gate))
            return
        seal_scores(store)
        Schedule(engine, board).run([gallery_flow(resolved, gate.frozen[baseline], store)])


def _baseline_flow(resolved: Resolved, store: Store, gate: Gate, board: Board) -> Flow[None]:
    """Waits until every selection is frozen, says so in the index, and is the first to open the test set."""
    specs = baseline_specs(resolved)
    row = resolved.baseline
    board.expect(row, len(specs))
    yield Until(gate.is_open)
    selections = _selections(resolved, gate)
    _write_index(store, resolved, selections)
    _check_any({method.name: selections[method.name] for method in resolved.methods})
    yield from score_flow(resolved, store, gate, board, row=row, specs=specs, runs=[() for _ in specs])
    board.ended(row)


def _method_flow(
    resolved: Resolved,
    method: Method,
    store: Store,
    gate: Gate,
    board: Board,
    *,
    row: str,
    search_only: bool,
) -> Flow[None]:
    """Search, select, and unless ``search_only`` train the reruns and score them."""
    reruns, folds = resolved.experiment.confirm.reruns, resolved.num_folds
    identity = search_id(resolved, method)
    trials = min(len(store.trials(identity)), budget(resolved, method))
    total = budget(resolved, method) * folds + (0 if search_only else reruns * (folds + 1))
    board.expect(row, total, done=trials * folds, budget=budget(resolved, method))
    yield Jobs(feature_jobs(resolved))
    found = yield from search_flow(resolved, method, store, board, row=row)
    selection = select(found, method=method.name, search=identity, sign=resolved.sign)
    file = store.freeze(selection)
    gate.frozen[row] = file
    board.selected(row, selection.score, selection.failed or "")
    if search_only:
        board.ended(row)
        return
    if selection.failed is None:
        specs = yield from train_flow(resolved, method, selection.hyperparameters, store, row=row)
        runs = [tuple(store.run(spec.run_id).path for spec in group) for group in specs]
        yield from score_flow(resolved, store, gate, board, row=row, specs=specs, runs=runs)
    else:  # the report has its reason, and the others go on
        yield Until(lambda: gate.is_turn_of(row))
        gate.passed += 1
    board.ended(row)


def _row(resolved: Resolved, method: Method) -> str:
    """What the display calls a method; which of its searches is meant, where there are several."""
    repeats = resolved.experiment.search.repeats
    return f"{method.name} ({resolved.repeat + 1} of {repeats})" if repeats > 1 else method.name


def _selections(resolved: Resolved, gate: Gate) -> dict[str, list[Path]]:
    """The files of all frozen selections, by method; the baseline has one."""
    found = {
        method.name: [gate.frozen[_row(repeat, method)] for repeat in resolved.repeats]
        for method in resolved.methods
    }
    return {**found, resolved.baseline: [gate.frozen[resolved.baseline]]}


def _check_any(files: Mapping[str, list[Path]]) -> None:
    """Refuse to open the test set where no method has anything to confirm."""
    chosen = {name: [read_selection(file) for file in found] for name, found in files.items()}
    if all(selection.failed for found in chosen.values() for selection in found):
        name, (first, *_) = next(iter(chosen.items()))
        raise RunError(
            f"every trial of {name if len(chosen) == 1 else 'every method'} failed ({first.failed}); "
            "lower the learning rate or narrow the search ranges"
        )


def _baseline_selection(resolved: Resolved) -> Selection:
    """The untrained network has nothing to select; what names it is all that its scores depend on."""
    network = NetworkIdentity(
        data=resolved.data,
        trunk=resolved.trunk,
        head=resolved.experiment.head.model_copy(update={"normalize": True}),  # measured by cosine
        transform=resolved.transform,
        seed=resolved.experiment.seed,
    )
    return Selection(method=resolved.baseline, network=network)


def _write_index(store: Store, resolved: Resolved, selections: dict[str, list[Path]]) -> None:
    """Say what the folder holds, so that a report needs nothing else; note every revision."""
    experiment = resolved.experiment
    measured = dict.fromkeys((*experiment.metrics, experiment.training.metric))
    store.note_revision(Revision(time=now(), experiment=experiment, plugins=dict(resolved.plugins)))
    store.write_index(
        Index(
            experiment=experiment,
            split=resolved.split_description,
            leaky=resolved.leaky,
            baseline=resolved.baseline,
            measures=tuple(_measure(name) for name in measured),
            searches={
                method.name: tuple(search_id(repeat, method) for repeat in resolved.repeats)
                for method in resolved.methods
            },
            selections={name: tuple(file.stem for file in files) for name, files in selections.items()},
            plugins=dict(resolved.plugins),
            notes=resolved.notes,
        )
    )


def _measure(name: str) -> Measure:
    card = metrics.card(name)
    return Measure(name=name, label=card.label, unit=card.unit, higher_is_better=card.higher_is_better)
