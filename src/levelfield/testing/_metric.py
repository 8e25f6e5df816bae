"""The contract of a metric."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from levelfield import metrics
from levelfield.metrics import MetricCard
from levelfield.testing._card import check_card
from levelfield.testing._report import raise_problems, watch_global_randomness

CLASSES, SAMPLES, DIMENSIONS = 100, 6, 8
FAMILY_K = 5
WHOLE_RANKING = "map"  # a measure that makes the search list every relevant item


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


def check_metric(name: str) -> None:
    """Check a metric against the contract; AssertionError with everything that is wrong.

    A metric says what it is, how tables call it and which way is better. It gives one finite number, for
    retrieval one per query, and does so in the same way again: whatever the order of the rows and the size of
    the blocks, without drawing from a global generator. A share printed in percent lies between 0 and 1. A
    retrieval metric looks no further down the ranking than its card says. Of a retrieval or clustering metric
    with a direction, embeddings that hold each class in one point score better than random ones.

    Args:
        name: A registered name; a family such as "recall_at_K" is checked with K = 5.

    Example:
        >>> check_metric("map_at_r")
    """
    check_card(metrics.registry[name])
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), SAMPLES)
    centres = random.normal(size=(CLASSES, DIMENSIONS))
    rows = centres[labels] + random.normal(size=(len(labels), DIMENSIONS))
    filled = f"{name[:-1]}{FAMILY_K}" if name.endswith("_at_K") else name
    subject = _Metric(filled, metrics.card(filled), rows, labels)
    checks = [_says_what_it_is, _gives_a_number, _is_repeatable, _ignores_the_order, _knows_better]
    if subject.card.kind == "retrieval":
        checks += [_gives_one_value_per_query, _ignores_the_blocks, _keeps_to_its_depth]
    raise_problems(f"metric {name}", subject, checks)


def _says_what_it_is(subject: _Metric) -> Iterator[str]:
    card = subject.card
    if not card.label or "_" in card.label:
        yield f'the label "{card.label}" is no name to print; give one, such as label="MAP@R"'
    if card.higher_is_better not in (True, False, None):
        yield f"higher_is_better is {card.higher_is_better!r}; say True, False or None"
    if card.depth == "k" and str(FAMILY_K) not in card.label:
        yield f'the label "{card.label}" has no K; end it in K, such as "R@K", to have the number filled in'


def _gives_a_number(subject: _Metric) -> Iterator[str]:
    value = subject.scores()[subject.name]
    if not isinstance(value, float) or not math.isfinite(value):
        yield f"it gives {value!r} for ordinary embeddings, not a finite number"
    elif subject.card.unit == "percent" and not 0 <= value <= 1:
        yield f"its unit is percent, but it gives {value}, not a share between 0 and 1"


def _is_repeatable(subject: _Metric) -> Iterator[str]:
    problems: list[str] = []
    with watch_global_randomness(problems):
        first = subject.scores()[subject.name]
    yield from problems
    if subject.scores()[subject.name] != first:
        yield "the same embeddings give another number the second time"


def _ignores_the_order(subject: _Metric) -> Iterator[str]:
    if subject.card.kind == "clustering":  # k-means depends on it, the comparison of two labellings does not
        return
    order = np.random.default_rng(1).permutation(len(subject.labels))
    shuffled = subject.scores(subject.embeddings[order], subject.labels[order])[subject.name]
    if not math.isclose(shuffled, subject.scores()[subject.name], rel_tol=1e-9, abs_tol=1e-12):
        yield "the order of the rows changes its value"


def _knows_better(subject: _Metric) -> Iterator[str]:
    higher = subject.card.higher_is_better
    if (
        higher is None or subject.card.kind == "structure"
    ):  # a property of a space may speak against retrieval
        return
    random = np.random.default_rng(2)
    points = random.normal(size=(CLASSES, DIMENSIONS))[subject.labels]
    perfect = subject.scores(points)[subject.name]
    worthless = subject.scores(random.normal(size=subject.embeddings.shape))[subject.name]
    if (perfect > worthless) != higher or perfect == worthless:
        way = "higher" if higher else "lower"
        yield (
            f"{way} is said to be better, but classes in one point each score {perfect:g} "
            f"and random embeddings {worthless:g}"
        )


def _gives_one_value_per_query(subject: _Metric) -> Iterator[str]:
    def hits(queries: int) -> metrics.Hits:
        rows = torch.arange(queries)
        ones = torch.ones_like(rows)
        return metrics.Hits(row=rows, rank=ones, nth=ones, relevant=ones, gallery=SAMPLES)

    for queries in (1, 3):
        values = metrics.resolve(subject.name).compute(hits(queries))
        if values.shape != (queries,) or values.dtype != torch.float64:
            yield (
                f"for {queries} queries it gives {tuple(values.shape)} of {values.dtype}, "
                f"not float64 ({queries},)"
            )


def _ignores_the_blocks(subject: _Metric) -> Iterator[str]:
    whole = subject.scores().per_query[subject.name]
    small = subject.scores(memory=1 << 14).per_query[subject.name]
    if not np.array_equal(whole, small, equal_nan=True):
        yield "its values depend on how many queries are handed to it at once"


def _keeps_to_its_depth(subject: _Metric) -> Iterator[str]:
    shallow = subject.scores().per_query[subject.name]
    deep = subject.scores(metrics=(subject.name, WHOLE_RANKING)).per_query[subject.name]
    if not np.array_equal(shallow, deep, equal_nan=True):
        yield (
            f"it looks further down than its card says (depth={subject.card.depth!r}, "
            f"first={subject.card.first}); widen the depth"
        )
