"""From records to entries. Records are read and never written here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from levelfield.config import Scalar
from levelfield.records import SETTINGS, Index, Rerun, RunFolder, RunSpec, Search, Selection, Store, Trial
from levelfield.seeds import run_seed
from levelfield.track._entry import Entry, Point, Status

REPORT_FILES = ("index.html", "results.csv", "pairs.csv", "results.md")


@dataclass(frozen=True)
class Place:
    """Where a run stands in the experiment."""

    method: str
    repeat: int
    stage: str
    number: int
    fold: int


class Reader:
    """Reads the records of one experiment as entries, again and again while they grow.

    What was found out of a run stays known, so that a look at thousands of finished runs is cheap.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._places: dict[str, Place | None] = {}
        self._searches: dict[str, Search | None] = {}

    def entries(self, settled: Callable[[str], bool] = lambda key: False) -> Iterator[Entry]:
        """Every entry, parents first; runs whose key is ``settled`` are left out without being read."""
        index = self._store.index()
        yield _experiment_entry(self._store, index)
        runs: dict[tuple[str, int, str, int], list[tuple[Place, RunFolder]]] = {}
        for place, folder in self._placed_runs(index):
            runs.setdefault((place.method, place.repeat, place.stage, place.number), []).append(
                (place, folder)
            )
        for method in (index.baseline, *(spec.name for spec in index.experiment.methods)):
            selections = self._selections(index, method)
            reruns = {
                repeat: self._store.reruns(selection_id, index.experiment.confirm.reruns)
                for repeat, selection_id in enumerate(
                    index.selection_ids(method) if method in index.selections else ()
                )
            }
            yield _method_entry(index, method, selections, reruns)
            chosen = [dict(selection.hyperparameters) for selection in selections]
            for repeat, search_id in enumerate(index.searches.get(method, ())):
                trials = {trial.number: trial for trial in self._store.trials(search_id)}
                begun = {key[3] for key in runs if key[:3] == (method, repeat, "search")}
                for number in sorted({*trials, *begun}):
                    own = runs.get((method, repeat, "search", number), [])
                    tried = trials.get(number) or dict(own[0][1].spec().hyperparameters)
                    parent = _trial_entry(index, method, repeat, number, tried)
                    yield parent
                    yield from self._run_entries(own, parent, settled)
            for repeat in range(index.experiment.search.repeats):
                begun = {key[3] for key in runs if key[:3] == (method, repeat, "confirm")}
                for number in sorted({*reruns.get(repeat, {}), *begun}):
                    rerun = reruns.get(repeat, {}).get(number)
                    wanted = chosen[repeat] if repeat < len(chosen) else {}
                    parent = _rerun_entry(index, method, repeat, number, chosen=wanted, rerun=rerun)
                    yield parent
                    yield from self._run_entries(
                        runs.get((method, repeat, "confirm", number), []), parent, settled
                    )

    def _selections(self, index: Index, method: str) -> list[Selection]:
        return [self._store.selection(name) for name in index.selections.get(method, ())]

    def _run_entries(
        self, runs: list[tuple[Place, RunFolder]], parent: Entry, settled: Callable[[str], bool]
    ) -> Iterator[Entry]:
        for place, folder in sorted(runs, key=lambda item: item[0].fold):
            if not settled(folder.path.name):
                yield _run_entry(place, folder, parent)

    def _placed_runs(self, index: Index) -> Iterator[tuple[Place, RunFolder]]:
        """The runs that belong to the experiment as it stands, not to an earlier wording of it."""
        for folder in self._store.runs():
            run_id = folder.path.name
            if run_id not in self._places:
                if not (folder.path / "spec.json").exists():
                    continue
                place = self._place(index, folder.spec())
                if place is None and not all(self._searches.values()):
                    continue  # its search is not on record yet
                self._places[run_id] = place
            if (place := self._places[run_id]) is not None:
                yield place, folder

    def _place(self, index: Index, spec: RunSpec) -> Place | None:
        seed, settings = index.experiment.seed, index.experiment
        stages = {"search": settings.search.trials, "confirm": settings.confirm.reruns}
        for method, searches in index.searches.items():
            for repeat, search_id in enumerate(searches):
                if not self._is_of(search_id, spec):
                    continue
                for stage, count in stages.items():
                    for number in range(count):
                        if run_seed(seed, stage, number, spec.fold, repeat=repeat) == spec.seed:
                            return Place(method, repeat, stage, number, spec.fold)
        return None

    def _is_of(self, search_id: str, spec: RunSpec) -> bool:
        """Whether a run's spec is that of the search but for fold, seed and what is searched."""
        if self._searches.get(search_id) is None:
            self._searches[search_id] = self._store.search(search_id)
        search = self._searches[search_id]
        if search is None:
            return False
        fixed = search.run.hyperparameters
        if any(spec.hyperparameters.get(name) != value for name, value in fixed.items()):
            return False
        if set(spec.hyperparameters) - set(fixed) - set(search.space):
            return False
        common = {"fold": 0, "seed": 0, "hyperparameters": {}}
        return spec.model_copy(update=common) == search.run.model_copy(update=common)


def _of_repeat(index: Index, method: str, repeat: int, rest: str) -> str:
    several = index.experiment.search.repeats > 1
    return f"{method}/search-{repeat + 1}/{rest}" if several else f"{method}/{rest}"


def _experiment_entry(store: Store, index: Index) -> Entry:
    experiment = index.experiment
    files = tuple(file for name in REPORT_FILES if (file := store.report_folder / name).exists())
    settings = experiment.model_dump(mode="json", exclude={"methods", "engine", "plugins", "track"})
    parameters = {"split": index.split, "leaky": index.leaky, **_flat(settings)}
    parameters["methods"] = ", ".join(method.name for method in experiment.methods)
    return Entry(
        key="experiment",
        kind="experiment",
        name=experiment.name,
        status="complete" if files else "running",
        parameters=parameters,
        files=files,
    )


def _method_entry(
    index: Index, method: str, selections: list[Selection], reruns: Mapping[int, Mapping[int, Rerun]]
) -> Entry:
    scored = [rerun for group in reruns.values() for rerun in group.values() if rerun.failed is None]
    wanted = 1 if method == index.baseline else index.experiment.confirm.reruns
    finished = bool(selections) and all(
        len(reruns.get(repeat, {})) >= wanted for repeat in range(len(selections))
    )
    scores = {
        f"test/{setting}/{metric}": fmean(values)
        for setting in SETTINGS
        for metric in index.experiment.metrics
        if (values := [r.scores(setting)[metric] for r in scored if metric in r.scores(setting)])
    }
    first = selections[0] if selections else None
    if first is not None and first.score is not None:
        scores["validation/selected"] = first.score
    failed = first.failed if first is not None else None
    return Entry(
        key=f"method/{method}",
        kind="method",
        name=method,
        parent="experiment",
        status="failed" if failed else "complete" if finished else "running",
        parameters=dict(first.hyperparameters) if first is not None else {},
        scores=scores,
        reason=failed or "",
    )


def _trial_entry(
    index: Index, method: str, repeat: int, number: int, found: Trial | dict[str, Scalar]
) -> Entry:
    """A finished trial, or the hyperparameters of one that is under way."""
    status: Status = "running"
    scores: dict[str, float] = {}
    trial = found if isinstance(found, Trial) else None
    if trial is not None:
        status = "pruned" if trial.pruned else "complete" if trial.score is not None else "failed"
        scores = {f"fold-{fold}": score for fold, score in enumerate(trial.fold_scores) if score is not None}
        if trial.score is not None:
            scores["score"] = trial.score
    return Entry(
        key=f"trial/{index.searches[method][repeat]}/{number:04d}/{method}",
        kind="trial",
        name=_of_repeat(index, method, repeat, f"trial-{number:04d}"),
        parent=f"method/{method}",
        status=status,
        parameters=found.hyperparameters if isinstance(found, Trial) else found,
        scores=scores,
        reason="" if trial is None else trial.reason,
    )


def _rerun_entry(
    index: Index, method: str, repeat: int, number: int, *, chosen: dict[str, Scalar], rerun: Rerun | None
) -> Entry:
    scores = {}
    if rerun is not None:
        scores = {
            f"test/{setting}/{metric}": value
            for setting in SETTINGS
            for metric, value in rerun.scores(setting).items()
        }
    confirmation = index.selection_ids(method)[repeat] if method in index.selections else "open"
    return Entry(
        key=f"rerun/{confirmation}/{number:02d}/{method}",
        kind="rerun",
        name=_of_repeat(index, method, repeat, f"rerun-{number:02d}"),
        parent=f"method/{method}",
        status="running" if rerun is None else "failed" if rerun.failed else "complete",
        parameters=chosen,
        scores=scores,
        reason=(rerun.failed or "") if rerun is not None else "",
    )


def _run_entry(place: Place, folder: RunFolder, parent: Entry) -> Entry:
    spec, result = folder.spec(), folder.result()
    points = tuple(
        Point(
            line.epoch,
            {
                **({} if line.loss is None else {"loss": line.loss}),
                **{f"validation/{name}": value for name, value in line.scores.items()},
            },
        )
        for line in folder.log()
    )
    scores: dict[str, float] = {}
    if result is not None:
        scores = {f"best/{name}": value for name, value in result.validation.items()}
        scores["best_epoch"] = float(result.best_epoch)
    parameters = {
        **spec.hyperparameters,
        "fold": spec.fold,
        "seed": spec.seed,
        "loss": spec.recipe.loss,
        "miner": spec.recipe.miner or "none",
        "sampler": spec.recipe.sampler,
    }
    return Entry(
        key=folder.path.name,
        kind="run",
        name=f"{parent.name}/fold-{place.fold}",
        parent=parent.key,
        status="running" if result is None else "complete" if result.status == "complete" else "failed",
        parameters=parameters,
        points=points,
        scores=scores,
        reason=result.reason if result is not None else "",
    )


def _flat(values: Mapping[str, object], prefix: str = "") -> dict[str, Scalar]:
    """Nested settings under dotted names; lists as text, what is not set left out."""
    found: dict[str, Scalar] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{name}.")
        elif isinstance(value, list | tuple):
            found[prefix + name] = ", ".join(str(item) for item in value)
        elif isinstance(value, bool | int | float | str):
            found[prefix + name] = value
    return found
