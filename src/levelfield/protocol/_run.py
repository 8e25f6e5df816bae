"""The whole flow: search, select, confirm. Start it again and it goes on where it was.

Every method's selection is frozen before the test set is opened for any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from levelfield import metrics
from levelfield.config import Experiment
from levelfield.engine import Runner, TorchrunEngine, create, is_chief, started_by_torchrun
from levelfield.errors import RunError
from levelfield.methods import Method
from levelfield.protocol._confirm import confirm, confirm_baseline
from levelfield.protocol._gallery import keep_gallery
from levelfield.protocol._proposals import budget
from levelfield.protocol._resolve import Resolved, resolve
from levelfield.protocol._search import run_search, search_id
from levelfield.protocol.guard import record_feedback
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
from levelfield.train import development, learns_from_features, run_job, trunk_features


class Progress(Protocol):
    """Told what is going on; the command line draws bars with it."""

    def stage(self, description: str, total: int) -> None:
        """A stage of ``total`` runs begins."""
        ...

    def advance(self) -> None:
        """One run is done."""
        ...


class _Silent:
    def stage(self, description: str, total: int) -> None:
        pass

    def advance(self) -> None:
        pass


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
        progress: Is told of each finished run.
        search_only: Stop when every selection is frozen, with the test set closed: for a machine that only
            helps with a shared search.
    """
    store = Store(Path(out) if out is not None else Path("runs") / experiment.name)
    progress = progress or _Silent()
    resolved = resolve(experiment)
    if started_by_torchrun():
        with TorchrunEngine([run_job]).open() as ranks:
            if is_chief():
                _carry_out(resolved, store, ranks, progress, search_only=search_only)
            else:
                ranks.follow()
        return store.root
    with create(experiment.engine) as engine:
        _carry_out(resolved, store, engine, progress, search_only=search_only)
    return store.root


def _carry_out(
    resolved: Resolved, store: Store, engine: Runner, progress: Progress, *, search_only: bool
) -> None:
    with store.open():
        _write_index(store, resolved, {})
        if resolved.leaky:
            record_feedback(store)
        _compute_features(resolved, progress)
        files: dict[str, list[Path]] = {method.name: [] for method in resolved.methods}
        for repeat in resolved.repeats:
            for method in resolved.methods:
                files[method.name].append(_search_and_select(repeat, method, store, engine, progress))
        baseline = store.freeze(_baseline_selection(resolved))
        _write_index(store, resolved, {**files, resolved.baseline: [baseline]})
        if search_only:
            return
        _check_any(files)
        confirm_baseline(resolved, baseline, store, engine)
        for repeat in resolved.repeats:
            for method in resolved.methods:
                total = resolved.experiment.confirm.reruns * resolved.num_folds
                progress.stage(f"confirm {method.name}{_which(repeat)}", total)
                file = files[method.name][repeat.repeat]
                if (
                    read_selection(file).failed is None
                ):  # else the report has its reason, and the others go on
                    confirm(repeat, method, file, store, engine, on_run=progress.advance)
        keep_gallery(resolved, baseline, store, engine)


def _check_any(files: Mapping[str, list[Path]]) -> None:
    """Refuse to open the test set where no method has anything to confirm."""
    chosen = {name: [read_selection(file) for file in found] for name, found in files.items()}
    if all(selection.failed for found in chosen.values() for selection in found):
        name, (first, *_) = next(iter(chosen.items()))
        raise RunError(
            f"every trial of {name if len(chosen) == 1 else 'every method'} failed ({first.failed}); "
            "lower the learning rate or narrow the search ranges"
        )


def _which(resolved: Resolved) -> str:
    """Which search is meant, where there are several."""
    repeats = resolved.experiment.search.repeats
    return f" ({resolved.repeat + 1} of {repeats})" if repeats > 1 else ""


def _compute_features(resolved: Resolved, progress: Progress) -> None:
    """Compute what a frozen trunk, or its frozen part, gives: once, with all cores, before any run."""
    spec = resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0)
    if not learns_from_features(spec):
        return
    view = development(spec, resolved.resources)
    done = 0
    progress.stage(f"features of {len(view.dataset)} images", len(view.dataset) * (1 + spec.trunk.views))

    def advance(now_done: int, _total: int) -> None:
        nonlocal done
        for _ in range(now_done - done):
            progress.advance()
        done = now_done

    trunk_features(view.dataset, spec, resolved.resources, train=True, progress=advance)


def _search_and_select(
    resolved: Resolved, method: Method, store: Store, engine: Runner, progress: Progress
) -> Path:
    done = len(store.trials(search_id(resolved, method)))
    todo = max(0, budget(resolved, method) - done)
    progress.stage(f"search {method.name}{_which(resolved)}", todo * resolved.num_folds)
    trials = run_search(resolved, method, store, engine, on_run=progress.advance)
    search = search_id(resolved, method)
    return store.freeze(select(trials, method=method.name, search=search, sign=resolved.sign))


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
