"""Sweeps: one factor at a time takes several values, everything else stays as the experiment says.

As in Sections 4.2 and 4.3 of "Revisiting Training Strategies and Generalization Performance in Deep Metric
Learning". Each value is an experiment of its own, in a folder of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelfield.config import Experiment, merge, parse_yaml
from levelfield.errors import UsageError
from levelfield.protocol._progress import Board, Event, Progress
from levelfield.protocol._run import run

PER_METHOD = ("sampler", "miner", "samples_per_class")


@dataclass(frozen=True)
class Factor:
    """What is varied: a dotted path into the experiment, and its values."""

    path: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class SweepPoint:
    """One value of one factor: its experiment, and the folder of its records."""

    factor: str
    value: Any
    experiment: Experiment
    folder: Path

    @property
    def label(self) -> str:
        """The value as tables show it."""
        return label(self.value)


def parse_factor(text: str) -> Factor:
    """``path=value,value,...`` as written after ``--over``; values are YAML.

    ``methods.sampler``, ``methods.miner``, ``methods.samples_per_class`` and ``methods.set.NAME`` (a
    hyperparameter) are set for every method.

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
        raise UsageError(f'--over "{text}" has {len(found)} value; a sweep needs at least two')
    if len({label(value) for value in found}) < len(found):
        raise UsageError(f'--over "{text}" names a value twice')
    return Factor(path.strip(), tuple(found))


def sweep_points(experiment: Experiment, factors: Sequence[Factor], out: Path) -> list[SweepPoint]:
    """The experiments of a sweep; equal ones, of different factors, share a folder."""
    points: list[SweepPoint] = []
    for factor in factors:
        for value in factor.values:
            varied = with_value(experiment, factor.path, value)
            known = next((point.folder for point in points if point.experiment == varied), None)
            folder = known or out / f"{factor.path}={_file_name(label(value))}"
            points.append(SweepPoint(factor.path, value, varied, folder))
    return points


def with_value(experiment: Experiment, path: str, value: Any) -> Experiment:
    """``experiment`` with another value at ``path``."""
    values = experiment.model_dump(mode="json")
    section, _, rest = path.partition(".")
    if section == "methods":
        methods = [merge(method, _method_change(rest, value)) for method in values["methods"]]
        return Experiment.build(**(values | {"methods": methods}))
    change: Any = value
    for key in reversed(path.split(".")):
        change = {key: change}
    return Experiment.build(**merge(values, change))


def run_sweep(points: Sequence[SweepPoint], *, progress: Progress | None = None) -> None:
    """Carry out every experiment of a sweep; finished ones are not computed again."""
    for folder, experiment in {point.folder: point.experiment for point in points}.items():
        run(experiment, folder, progress=_Named(progress, folder.name) if progress else None)


def label(value: Any) -> str:
    """A value in a few characters.

    Example:
        >>> label(1e-4), label({"name": "resnet50", "weights": "imagenet"})
        ('0.0001', 'resnet50,weights=imagenet')
    """
    if isinstance(value, dict):
        parts = [f"{key}={label(item)}" for key, item in value.items() if key != "name"]
        return ",".join([str(value["name"]), *parts] if "name" in value else parts)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _method_change(path: str, value: Any) -> dict[str, Any]:
    field, _, name = path.partition(".")
    if field == "set" and name:
        return {"set": {name: value}}
    if field in PER_METHOD and not name:
        return {field: value}
    choices = ", ".join(f"methods.{field}" for field in PER_METHOD)
    raise UsageError(f'--over "methods.{path}": of methods, a sweep varies {choices} and methods.set.NAME')


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._,=+-]+", "_", text)


class _Named:
    """Progress whose rows say which value they belong to."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress, self._name = progress, name

    def update(self, board: Board, event: Event) -> None:
        """See :class:`levelfield.protocol.Progress`."""
        board.title = self._name
        self._progress.update(board, event)


def factors_of(points: Sequence[SweepPoint]) -> Iterator[tuple[str, list[SweepPoint]]]:
    """The points, factor by factor."""
    for factor in dict.fromkeys(point.factor for point in points):
        yield factor, [point for point in points if point.factor == factor]
