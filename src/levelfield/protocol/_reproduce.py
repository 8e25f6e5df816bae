"""Reproduction: carry out a finished experiment again from its records, and compare number by number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from levelfield.compare import Comparison, collect
from levelfield.config import Experiment
from levelfield.errors import UsageError, did_you_mean
from levelfield.protocol._progress import Progress
from levelfield.protocol._run import run
from levelfield.records import SETTINGS, Store
from levelfield.stats import RepeatVerdict, compare_repetition


@dataclass(frozen=True)
class Number:
    """One mean test score, before and after."""

    method: str
    setting: str
    metric: str
    before: float
    half_width: float
    after: float
    verdict: RepeatVerdict


@dataclass(frozen=True)
class Reproduction:
    """What a second run of an experiment says of the first.

    Attributes:
        folder: The records of the second run.
        numbers: Every mean score of the first run.
        selections: Methods whose search chose other hyperparameters, one line each.
        environment: What differs between the two runs' surroundings, one line each.
    """

    folder: Path
    numbers: tuple[Number, ...]
    selections: tuple[str, ...]
    environment: tuple[str, ...]

    def count(self, verdict: RepeatVerdict) -> int:
        """How many numbers have this verdict."""
        return sum(number.verdict == verdict for number in self.numbers)


def reproduce(
    folder: str | Path,
    out: str | Path | None = None,
    *,
    methods: Sequence[str] = (),
    root: Path | None = None,
    plugins: tuple[Path, ...] = (),
    workers: int = 1,
    device: str | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Carry out the experiment of ``folder`` again, and compare.

    Args:
        folder: What ``levelfield run`` or ``levelfield archive`` wrote, with all reruns finished.
        out: A fresh folder; beside the first with "-reproduced" by default. An unfinished one goes on.
        methods: Only these of its methods, which take no other's time; all by default.
        root: Where the dataset lies here.
        plugins: The user's own files; records do not hold them.
        workers: Processes.
        device: Where runs execute; where they did, if None.
        progress: Is told of each finished run.
    """
    first = Path(folder)
    before = collect(first)
    _check_finished(before)
    before = _only(before, methods)
    second = Path(out) if out is not None else first.with_name(f"{first.name}-reproduced")
    if second.resolve() == first.resolve():
        raise UsageError(f"{second} is the experiment itself; choose another --out folder")
    experiment = recorded_experiment(first, root=root, plugins=plugins, workers=workers, device=device)
    wanted = {result.method for result in before.trained}
    kept = tuple(method for method in experiment.methods if method.name in wanted)
    experiment = experiment.model_copy(update={"methods": kept})
    run(experiment, second, progress=progress)
    after = collect(second)
    return Reproduction(
        folder=second,
        numbers=tuple(_numbers(before, after)),
        selections=tuple(_selections(before, after)),
        environment=tuple(changes(surroundings(first), surroundings(second))),
    )


def recorded_experiment(
    folder: Path,
    *,
    root: Path | None = None,
    plugins: tuple[Path, ...] = (),
    workers: int = 1,
    device: str | None = None,
) -> Experiment:
    """The experiment that a folder holds; with the recorded number of threads, which bits depend on."""
    values = collect(folder).experiment.model_dump(mode="json")
    values["dataset"]["root"] = root
    recorded = surroundings(folder)
    values["plugins"] = plugins
    values["engine"] = {
        "workers": workers,
        "threads": max((int(count) for count in recorded.get("threads", ())), default=1),
        "device": device or max(recorded.get("device", ()), default="cpu"),
    }
    return Experiment.model_validate(values)


def _only(comparison: Comparison, methods: Sequence[str]) -> Comparison:
    """The comparison of these methods and the baseline; of all if none is named."""
    names = [result.method for result in comparison.trained]
    for method in methods:
        if method not in names:
            raise UsageError(f'the experiment has no method "{method}"{did_you_mean(method, names)}')
    kept = {comparison.baseline, *(methods or names)}
    return replace(comparison, results=tuple(r for r in comparison.results if r.method in kept))


def _check_finished(comparison: Comparison) -> None:
    for result in comparison.trained:
        # a search whose every trial failed has nothing to confirm, and is finished
        confirmed = [repeat for repeat in result.repeats if repeat.selection.failed is None]
        wanted = comparison.experiment.confirm.reruns * len(confirmed)
        done = len(result.failed) + len(result.scores[SETTINGS[0]][comparison.metrics[0]])
        if done < wanted:
            raise UsageError(
                f"{result.method} has {done} of {wanted} reruns; finish the experiment first, "
                "with `levelfield run`"
            )
    if len(comparison.trained) < len(comparison.experiment.methods):
        raise UsageError("the experiment is not finished; finish it first, with `levelfield run`")


def _numbers(before: Comparison, after: Comparison) -> Iterator[Number]:
    """Every mean score of the first run, all judged together: one false alarm in 20 repetitions at most."""
    old, new = _scores(before), _scores(after)
    intervals = {result.method: result.interval for result in before.results}
    for found in compare_repetition(old, new, groups={key: key[1:] for key in old}):
        method, setting, metric = found.key
        yield Number(
            method=method,
            setting=setting,
            metric=metric,
            before=found.before,
            half_width=intervals[method](setting, metric).half_width,
            after=found.after,
            verdict=found.verdict,
        )


def _scores(comparison: Comparison) -> dict[tuple[str, str, str], list[float]]:
    return {
        (result.method, setting, metric): scores
        for result in comparison.results
        for setting in SETTINGS
        for metric in comparison.metrics
        if (scores := result.replicates(setting, metric))
    }


def _selections(before: Comparison, after: Comparison) -> Iterator[str]:
    found = {result.method: result for result in after.trained}
    for result in before.trained:
        other = found.get(result.method)
        old = [repeat.selection.hyperparameters for repeat in result.repeats]
        new = [repeat.selection.hyperparameters for repeat in other.repeats] if other else None
        if old != new:
            yield f"{result.method}: {old} -> {new}"


def surroundings(folder: Path) -> dict[str, set[str]]:
    """Every value that the runs of a folder have of what they ran on, with and from."""
    found: dict[str, set[str]] = {}
    for run_folder in Store(folder).runs():
        provenance = run_folder.provenance()
        if provenance is None:
            continue
        spec = run_folder.spec()
        facts = provenance.model_dump(exclude={"finished", "seconds"})
        facts |= {"dataset": spec.data.fingerprint, "weights": spec.trunk.weights}
        for key, value in _leaves(facts):
            found.setdefault(key, set()).add(str(value))
    return found


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def changes(before: Mapping[str, set[str]], after: Mapping[str, set[str]]) -> list[str]:
    """The facts that differ, one line each.

    Example:
        >>> changes({"versions.torch": {"2.14"}, "host": {"a"}}, {"versions.torch": {"2.15"}, "host": {"a"}})
        ['versions.torch: 2.14 -> 2.15']
    """
    return [
        f"{key}: {_shown(before.get(key))} -> {_shown(after.get(key))}"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]


def _shown(values: set[str] | None) -> str:
    return ", ".join(sorted(values)) if values else "not recorded"
