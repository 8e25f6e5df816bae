"""Contract of a metric."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from levelfield import metrics
from levelfield.core.errors import UsageError
from levelfield.metrics import MetricCard
from levelfield.testing._card import check_card
from levelfield.testing._run import find_plugins, run_checks, watch_global_randomness

CLASSES, SAMPLES, DIMENSIONS = 100, 6, 8
FAMILY_K = 5
WHOLE_RANKING = "map"  # a metric that needs the ranks of all relevant images


@dataclass(frozen=True)
class _Metric:
    name: str
    card: MetricCard
    embeddings: npt.NDArray[np.float64]
    labels: npt.NDArray[np.int64]

    def scores(
        self, embeddings: npt.ArrayLike | None = None, labels: npt.ArrayLike | None = None, **options: Any
    ) -> metrics.Scores:
        rows = self.embeddings if embeddings is None else embeddings
        names = options.pop("metrics", (self.name,))
        return metrics.evaluate(
            rows, self.labels if labels is None else labels, metrics=names, per_query=True, **options
        )


def check_metric(metric: str | Path | Callable[..., Any]) -> None:
    """Check a metric against its contract; print one line per check and raise AssertionError on problems.

    - Its card has a summary, a label for tables and a direction.
    - It returns one finite number; a retrieval metric returns one per query. With unit "percent" it is
      between 0 and 1.
    - The same embeddings give the same value, in any order and in blocks of any size, without global
      randomness.
    - A retrieval metric uses no deeper ranks than its card declares.
    - A retrieval or clustering metric with a direction scores perfect embeddings better than random ones.

    Args:
        metric: Registered name, registered function, or path of your Python file. A family such as
            "recall_at_K" is checked with K = 5.

    Example:
        >>> check_metric("map_at_r")
        card of map_at_r
          ok: the card has a summary
          ...
        metric map_at_r
          ok: label and direction are valid
          ...
    """
    for plugin in find_plugins(metrics.registry, metric):
        if plugin.entry is None:
            raise UsageError(
                f"{plugin.name} is not a registered metric; decorate it with `levelfield.metrics.register`"
            )
        check_card(plugin.entry)
        _check_registered(plugin.name)


def _check_registered(name: str) -> None:
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), SAMPLES)
    centers = random.normal(size=(CLASSES, DIMENSIONS))
    rows = centers[labels] + random.normal(size=(len(labels), DIMENSIONS))
    filled = f"{name[:-1]}{FAMILY_K}" if name.endswith("_at_K") else name
    subject = _Metric(filled, metrics.card(filled), rows, labels)
    kind = subject.card.kind
    checks: dict[str, Callable[[_Metric], Iterator[str]]] = {
        "label and direction are valid": _label,
        "the value is a finite number": _value,
        "the same embeddings give the same value, without global randomness": _repeats,
    }
    if kind != "clustering":  # k-means depends on the order of the rows
        checks["the order of the rows does not matter"] = _order
    if kind != "structure" and subject.card.higher_is_better is not None:
        checks["perfect embeddings score better than random ones"] = _direction
    if kind == "retrieval":
        checks["there is one value per query"] = _per_query
        checks["the block size does not matter"] = _blocks
        checks["it uses no deeper ranks than its card declares"] = _depth
    run_checks(f"metric {name}", subject, checks)


def _label(subject: _Metric) -> Iterator[str]:
    card = subject.card
    if not card.label or "_" in card.label:
        yield f'the label "{card.label}" is not suitable for tables; set one, such as label="MAP@R"'
    if card.higher_is_better not in (True, False, None):
        yield f"higher_is_better is {card.higher_is_better!r}; set it to True, False or None"
    if card.depth == "k" and str(FAMILY_K) not in card.label:
        yield f'the label "{card.label}" has no K to replace by the number; end it with K, such as "R@K"'


def _value(subject: _Metric) -> Iterator[str]:
    value = subject.scores()[subject.name]
    if not isinstance(value, float) or not math.isfinite(value):
        yield f"the value for ordinary embeddings is {value!r}, not a finite number"
    elif subject.card.unit == "percent" and not 0 <= value <= 1:
        yield f"its unit is percent, but its value is {value}, not between 0 and 1"


def _repeats(subject: _Metric) -> Iterator[str]:
    problems: list[str] = []
    with watch_global_randomness(problems):
        first = subject.scores()[subject.name]
    yield from problems
    if subject.scores()[subject.name] != first:
        yield "the same embeddings give a different value the second time"


def _order(subject: _Metric) -> Iterator[str]:
    order = np.random.default_rng(1).permutation(len(subject.labels))
    shuffled = subject.scores(subject.embeddings[order], subject.labels[order])[subject.name]
    if not math.isclose(shuffled, subject.scores()[subject.name], rel_tol=1e-9, abs_tol=1e-12):
        yield "the order of the rows changes its value"


def _direction(subject: _Metric) -> Iterator[str]:
    higher = subject.card.higher_is_better
    random = np.random.default_rng(2)
    points = random.normal(size=(CLASSES, DIMENSIONS))[subject.labels]
    perfect = subject.scores(points)[subject.name]
    random_score = subject.scores(random.normal(size=subject.embeddings.shape))[subject.name]
    if (perfect > random_score) != higher or perfect == random_score:
        way = "higher" if higher else "lower"
        yield (
            f"its card says that {way} is better, but perfect embeddings score {perfect:g} "
            f"and random embeddings {random_score:g}"
        )


def _per_query(subject: _Metric) -> Iterator[str]:
    def hits(queries: int) -> metrics.RelevantHits:
        rows = torch.arange(queries)
        ones = torch.ones_like(rows)
        return metrics.RelevantHits(row=rows, rank=ones, nth=ones, relevant=ones, gallery=SAMPLES)

    for queries in (1, 3):
        values = metrics.resolve_metric(subject.name).compute(hits(queries))
        if values.shape != (queries,) or values.dtype != torch.float64:
            yield (
                f"for {queries} queries it returns {values.dtype} of shape {tuple(values.shape)}, "
                f"not float64 of shape ({queries},)"
            )


def _blocks(subject: _Metric) -> Iterator[str]:
    whole = subject.scores().per_query[subject.name]
    small = subject.scores(memory=1 << 14).per_query[subject.name]
    if not np.array_equal(whole, small, equal_nan=True):
        yield "its values depend on the number of queries per call"


def _depth(subject: _Metric) -> Iterator[str]:
    shallow = subject.scores().per_query[subject.name]
    deep = subject.scores(metrics=(subject.name, WHOLE_RANKING)).per_query[subject.name]
    if not np.array_equal(shallow, deep, equal_nan=True):
        yield (
            f"it uses deeper ranks than its card declares (depth={subject.card.depth!r}, "
            f"first={subject.card.first}); raise the depth"
        )
