"""Sweeps: vary one factor at a time and keep everything else fixed.

As in Sections 4.2 and 4.3 of "Revisiting Training Strategies and Generalization Performance in Deep Metric
Learning". Each value is a separate experiment with its own directory.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.config import Experiment, merge, parse_yaml
from levelfield.core.errors import UsageError
from levelfield.protocol._run import run_protocol
from levelfield.protocol.schedule._progress import ProgressCallback, ProgressEvent, ProgressState

PER_METHOD = ("sampler", "miner", "samples_per_class")


@dataclass(frozen=True)
class Factor:
    """A factor to vary: a dotted path into the experiment, and its values."""

    path: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class SweepPoint:
    """One value of one factor: its experiment and the experiment directory."""

    factor: str
    value: Any
    experiment: Experiment
    directory: Path

    @property
    def label(self) -> str:
        """The value as shown in tables."""
        return format_value(self.value)


def parse_factor(text: str) -> Factor:
    """Parse ``path=value,value,...``, the argument of ``--over``; values are YAML.

    ``methods.sampler``, ``methods.miner``, ``methods.samples_per_class`` and ``methods.set.NAME`` (a
    hyperparameter) change every method.

    Example:
        >>> parse_factor("batch.size=32,64,112")
        Factor(path='batch.size', values=(32, 64, 112))
        >>> parse_factor("trunk={name: resnet50, weights: imagenet},{name: bninception}").values[1]
        {'name': 'bninception'}
    """
    path, equals, values = text.partition("=")
    if not equals or not all(path.strip().split(".")):
        raise UsageError(f'--over "{text}" must look like section.key=value,value, e.g. batch.size=32,64,112')
    found = parse_yaml(f"[{values}]", origin=f'--over "{text}"')
    if len(found) < 2:
        raise UsageError(
            f'--over "{text}" has {len(found)} value; a sweep needs at least two; separate them by commas'
        )
    if len({format_value(value) for value in found}) < len(found):
        raise UsageError(f'--over "{text}" names a value twice; leave one of them out')
    return Factor(path.strip(), tuple(found))


def sweep_points(experiment: Experiment, factors: Sequence[Factor], out: Path) -> list[SweepPoint]:
    """Return the experiments of a sweep; equal experiments of different factors share a directory."""
    points: list[SweepPoint] = []
    for factor in factors:
        for value in factor.values:
            varied = with_value(experiment, factor.path, value)
            known = next((point.directory for point in points if point.experiment == varied), None)
            directory = known or out / f"{factor.path}={_file_name(format_value(value))}"
            points.append(SweepPoint(factor.path, value, varied, directory))
    return points


def with_value(experiment: Experiment, path: str, value: Any) -> Experiment:
    """Return a copy of ``experiment`` with ``value`` at ``path``."""
    values = experiment.model_dump(mode="json")
    section, _, rest = path.partition(".")
    if section == "methods":
        methods = [merge(method, _method_change(rest, value)) for method in values["methods"]]
        return Experiment.build(**(values | {"methods": methods}))
    change: Any = value
    for key in reversed(path.split(".")):
        change = {key: change}
    return Experiment.build(**merge(values, change))


def run_sweep(points: Sequence[SweepPoint], *, progress: ProgressCallback | None = None) -> None:
    """Run every experiment of a sweep; finished ones are not repeated."""
    for directory, experiment in {point.directory: point.experiment for point in points}.items():
        run_protocol(
            experiment, directory, progress=_TitledProgress(progress, directory.name) if progress else None
        )


def format_value(value: Any) -> str:
    """Return a value as a short text.

    Example:
        >>> format_value(1e-4), format_value({"name": "resnet50", "weights": "imagenet"})
        ('0.0001', 'resnet50,weights=imagenet')
    """
    if isinstance(value, dict):
        parts = [f"{key}={format_value(item)}" for key, item in value.items() if key != "name"]
        return ",".join([str(value["name"]), *parts] if "name" in value else parts)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _method_change(path: str, value: Any) -> dict[str, Any]:
    field, _, name = path.partition(".")
    if field == "set" and name:
        return {"set": {name: value}}
    if field in PER_METHOD and not name:
        return {field: value}
    choices = ", ".join(f"methods.{field}" for field in PER_METHOD)
    raise UsageError(
        f'--over "methods.{path}": a sweep cannot vary this; choose one of {choices} and methods.set.NAME'
    )


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._,=+-]+", "_", text)


class _TitledProgress:
    """Progress callback that sets the title of the progress state to the swept value."""

    def __init__(self, progress: ProgressCallback, title: str) -> None:
        self._progress, self._title = progress, title

    def update(self, progress_state: ProgressState, event: ProgressEvent) -> None:
        """See :class:`levelfield.protocol.ProgressCallback`."""
        progress_state.title = self._title
        self._progress.update(progress_state, event)
