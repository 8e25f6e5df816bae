"""Reproduction: run a finished experiment again from its records and compare every score."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from levelfield import data, models
from levelfield.analysis import Comparison, read_comparison
from levelfield.config import Experiment
from levelfield.core.errors import RunError, UsageError, did_you_mean
from levelfield.core.trust import check_trusted
from levelfield.protocol._run import run_protocol
from levelfield.protocol.schedule._progress import ProgressCallback
from levelfield.records import SETTINGS, Store, remembered_dataset_root
from levelfield.stats import ReproducedMean, ReproductionVerdict, compare_reproduction

Key = tuple[str, str, str]  # method, setting, metric


@dataclass(frozen=True)
class ReproducedScore:
    """One mean test score of both runs.

    Attributes:
        method: Name of the method.
        setting: "separated" or "concatenated".
        metric: Name of the metric.
        before: Mean of the first run.
        half_width: Half-width of its 95% interval; NaN for a single value.
        after: Mean of the second run; NaN if missing.
        verdict: Result of the comparison.
    """

    method: str
    setting: str
    metric: str
    before: float
    half_width: float
    after: float
    verdict: ReproductionVerdict


@dataclass(frozen=True)
class Reproduction:
    """Comparison of a second run of an experiment with the first.

    Attributes:
        folder: Experiment directory of the second run.
        numbers: Every mean score of the first run, with that of the second.
        selections: Methods whose search chose other hyperparameters, one line each.
        environment: Differences in machine, versions and data, one line each.
    """

    folder: Path
    numbers: tuple[ReproducedScore, ...]
    selections: tuple[str, ...]
    environment: tuple[str, ...]

    def count(self, verdict: ReproductionVerdict) -> int:
        """Return the number of scores with this verdict."""
        return sum(number.verdict == verdict for number in self.numbers)


def reproduce(
    directory: str | Path,
    out: str | Path | None = None,
    *,
    methods: Sequence[str] = (),
    root: Path | None = None,
    plugins: tuple[Path, ...] = (),
    workers: int = 1,
    device: str | None = None,
    trust: bool = False,
    progress: ProgressCallback | None = None,
) -> Reproduction:
    """Run the experiment in ``directory`` again and compare the scores.

    Args:
        directory: Experiment directory written by ``levelfield run`` or ``levelfield archive``, with all
            reruns finished.
        out: New experiment directory; an unfinished one is continued. Defaults to ``directory`` with
            "-reproduced" appended.
        methods: Names of the methods to reproduce. Defaults to all.
        root: Dataset directory on this machine.
        plugins: Plug-in files of the experiment; records do not contain them.
        workers: Number of worker processes.
        device: Device of the runs. Defaults to the recorded one.
        trust: Run the code of any trunk that the records name; see :func:`recorded_experiment`.
        progress: Called with progress events.
    """
    first = Path(directory)
    before = read_comparison(first)
    _check_finished(before)
    before = _only(before, methods)
    second = Path(out) if out is not None else first.with_name(f"{first.name}-reproduced")
    if second.resolve() == first.resolve():
        raise UsageError(f"{second} is the experiment itself; choose another --out directory")
    experiment = recorded_experiment(
        first, root=root, plugins=plugins, workers=workers, device=device, trust=trust
    )
    wanted = {result.method for result in before.trained}
    kept = tuple(method for method in experiment.methods if method.name in wanted)
    experiment = experiment.model_copy(update={"methods": kept})
    run_protocol(experiment, second, progress=progress, recorded=True)
    after = read_comparison(second)
    return Reproduction(
        folder=second,
        numbers=tuple(_numbers(before, after)),
        selections=tuple(_selections(before, after)),
        environment=tuple(describe_changes(recorded_environment(first), recorded_environment(second))),
    )


def recorded_experiment(
    directory: Path,
    *,
    root: Path | None = None,
    plugins: tuple[Path, ...] = (),
    workers: int = 1,
    device: str | None = None,
    trust: bool = False,
) -> Experiment:
    """Return the experiment of a directory, with the recorded number of threads, which affects the bits.

    Records may come from strangers. They may name parts of levelfield and ``timm:`` trunks; others need
    ``trust``. Plug-in files are those of ``plugins``, never those of the records. Addresses are left out.
    Without ``root`` the dataset is where it was when this machine ran the experiment.
    """
    recorded_values = read_comparison(directory).experiment
    check_trusted(
        models.registry, recorded_values.trunk.name, origin=f"{directory}/experiment.json", trust=trust
    )
    values = recorded_values.model_dump(mode="json")
    values["dataset"]["root"] = _dataset_root(directory, recorded_values.dataset.name, root)
    values["search"]["storage"], values["track"] = None, []
    recorded = recorded_environment(directory)
    values["plugins"] = plugins
    values["engine"] = {
        "workers": workers,
        "threads": max((int(count) for count in recorded.get("threads", ())), default=1),
        "device": device or max(recorded.get("device", ()), default="cpu"),
    }
    try:
        return Experiment.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunError(
            f"the records of {directory} are damaged ({where}: {first['msg']}); restore them from a copy"
        ) from error


def _dataset_root(directory: Path, name: str, given: Path | None) -> Path | None:
    """Return the local path of a recorded dataset; raise UsageError if the dataset needs one."""
    root = given or remembered_dataset_root(directory)
    if root is None and name in data.registry:
        parameter = data.registry[name].parameters.get("root")
        if parameter is not None and parameter.default is parameter.empty:
            raise UsageError(
                f"the images of {directory} (dataset {name}) are not where they were, or that is not known; "
                "give their directory with --root"
            )
    return root


def _only(comparison: Comparison, methods: Sequence[str]) -> Comparison:
    """Return the comparison of the baseline and these methods, or of all if none is named."""
    names = [result.method for result in comparison.trained]
    for method in methods:
        if method not in names:
            raise UsageError(f'the experiment has no method "{method}"{did_you_mean(method, names)}')
    kept = {comparison.baseline, *(methods or names)}
    return replace(comparison, results=tuple(r for r in comparison.results if r.method in kept))


def _check_finished(comparison: Comparison) -> None:
    for result in comparison.trained:
        # a search with only failed trials has nothing to confirm and counts as finished
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


def _numbers(before: Comparison, after: Comparison) -> Iterator[ReproducedScore]:
    """Yield every mean score; at most 1 in 20 faithful reproductions has a false "different"."""
    old, new = _scores(before), _scores(after)
    intervals = {result.method: result.seed_interval for result in before.results}
    finite = {key: values for key, values in old.items() if np.isfinite([*values, *new.get(key, ())]).all()}
    compared = compare_reproduction(finite, new, groups={key: key[1:] for key in finite})
    odd = [_compare_odd(key, values, new.get(key, [])) for key, values in old.items() if key not in finite]
    for found in (*compared, *odd):
        method, setting, metric = found.key
        yield ReproducedScore(
            method=method,
            setting=setting,
            metric=metric,
            before=found.before,
            half_width=intervals[method](setting, metric).half_width,
            after=found.after,
            verdict=found.verdict,
        )


def _compare_odd(key: Key, old: list[float], new: list[float]) -> ReproducedMean[Key]:
    """Compare scores of which some are infinite or NaN: they are identical, different or missing."""
    verdict: ReproductionVerdict = "different" if new else "missing"
    if np.array_equal(old, new, equal_nan=True):
        verdict = "identical"
    after = float(np.mean(new)) if new else math.nan
    return ReproducedMean(key, float(np.mean(old)), after, math.nan, 1.0, verdict)


def _scores(comparison: Comparison) -> dict[Key, list[float]]:
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


def recorded_environment(directory: Path) -> dict[str, set[str]]:
    """Return all recorded values of machine, versions, dataset and weights by name."""
    found: dict[str, set[str]] = {}
    for run_directory in Store(directory).runs():
        provenance = run_directory.provenance()
        if provenance is None:
            continue
        spec = run_directory.spec()
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


def describe_changes(before: Mapping[str, set[str]], after: Mapping[str, set[str]]) -> list[str]:
    """Return the values that differ, one line each.

    Example:
        >>> before = {"versions.torch": {"2.14"}, "host": {"a"}}
        >>> describe_changes(before, before | {"versions.torch": {"2.15"}})
        ['versions.torch: 2.14 -> 2.15']
    """
    return [
        f"{key}: {_format_values(before.get(key))} -> {_format_values(after.get(key))}"
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]


def _format_values(values: set[str] | None) -> str:
    return ", ".join(sorted(values)) if values else "not recorded"
