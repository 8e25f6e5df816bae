"""Registry of metrics, and lookup of names such as ``recall_at_8``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.registry import Card, Registry

Depth: TypeAlias = int | Literal["k", "r", "r+1", "all"]
Kind: TypeAlias = Literal["retrieval", "clustering", "structure"]
Unit: TypeAlias = Literal["percent", ""]
MetricT = TypeVar("MetricT", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class MetricCard(Card):
    """A metric's card.

    Attributes:
        higher_is_better: Direction; None if the metric only describes a space. A metric without a direction
            can be reported. It cannot select, stop or prune, and tables mark no best value.
        label: Name in tables, such as "MAP@R"; the K of a family is filled in ("R@8").
        unit: "percent" for shares of 1 that tables print times 100, "" for plain numbers.
        kind: "retrieval" metrics take :class:`RelevantHits` and return one value per query. "clustering"
            metrics take a :class:`Contingency`, "structure" metrics an :class:`EmbeddingSpace`; both return
            one number.
        depth: Number of ranks that a retrieval metric reads: a number, its own K ("k"), the number of
            relevant items ("r", or "r+1" if the query counts among them), or all ranks ("all").
        first: Whether a retrieval metric only needs the best-ranked relevant item. The search then stops
            there.
    """

    higher_is_better: bool | None = None
    label: str = ""
    unit: Unit = ""
    kind: Kind = "retrieval"
    depth: Depth = "all"
    first: bool = False


@dataclass(frozen=True)
class ResolvedMetric:
    """Metric ready to compute: ``recall_at_K`` with K filled in."""

    name: str
    card: MetricCard
    compute: Callable[..., Any]
    k: int | None = None


registry = Registry("metric", MetricCard, package="levelfield.metrics")


def register(
    name: str,
    *,
    higher_is_better: bool | None = None,
    label: str = "",
    unit: Unit = "",
    kind: Kind = "retrieval",
    depth: Depth = "all",
    first: bool = False,
    paper: str = "",
    year: int | None = None,
) -> Callable[[MetricT], MetricT]:
    """Decorate a function to make it available as the metric ``name``.

    A name that ends in ``_at_K`` is a family: its function takes the number as a keyword argument ``k``.

    Args:
        name: Name in experiment files and in :func:`evaluate`.
        higher_is_better: Direction; None if there is none. The metric can then be reported, but cannot
            select.
        label: Name in tables and figures, such as "MAP@R". Defaults to ``name``.
        unit: "percent" for shares of 1 that tables print times 100, "" for plain numbers.
        kind: "retrieval" functions take :class:`RelevantHits` and return one value per query, float64 (B,).
            "clustering" functions take a :class:`Contingency`, "structure" functions an
            :class:`EmbeddingSpace`; both return one number.
        depth: Number of ranks that a retrieval metric reads: a number, its own K ("k"), the number of
            relevant items ("r", or "r+1"), or all ranks ("all").
        first: Whether a retrieval metric only needs the best-ranked relevant item.
        paper: Title of the paper that introduced it.
        year: Year of the paper.

    Example:
        >>> from levelfield.metrics.retrieval import r_precision
        >>> register("r_precision", higher_is_better=True, label="RP", unit="percent", depth="r")(
        ...     r_precision
        ... ).__name__
        'r_precision'
    """
    return registry.register(
        name,
        higher_is_better=higher_is_better,
        label=label or name,
        unit=unit,
        kind=kind,
        depth=depth,
        first=first,
        paper=paper,
        year=year,
    )


def card(name: str) -> MetricCard:
    """Return the card of the metric called ``name``, with the K of a family filled in.

    Example:
        >>> card("recall_at_8").label, card("recall_at_8").higher_is_better
        ('R@8', True)
    """
    return resolve_metric(name).card


def selection_sign(name: str) -> Literal[1, -1]:
    """Return 1 if a larger score is better, -1 if a smaller one is; times this, scores are maximized.

    Raises UsageError for a metric without a direction: it cannot select.

    Example:
        >>> selection_sign("map_at_r"), selection_sign("alignment")
        (1, -1)
    """
    higher = card(name).higher_is_better
    if higher is None:
        raise UsageError(
            f'metric "{name}" cannot select because it has no direction; '
            "choose one with a direction, such as map_at_r"
        )
    return 1 if higher else -1


_CUTOFF = re.compile(r"^(?P<stem>\w+)_at_(?P<k>\d+)$")


def resolve_metric(name: str) -> ResolvedMetric:
    """Return the metric called ``name``; in ``recall_at_8`` 8 is the K of the family ``recall_at_K``.

    Example:
        >>> resolve_metric("recall_at_8").k
        8
        >>> resolve_metric("recall_at_0")
        Traceback (most recent call last):
        ...
        levelfield.core.errors.UsageError: metric "recall_at_0" needs a K of at least 1; choose a larger K
    """
    if name in registry.names() and not name.endswith("_at_K"):
        entry = registry[name]
        return ResolvedMetric(name, entry.card, entry.target)
    match = _CUTOFF.match(name)
    family = f"{match['stem']}_at_K" if match else name
    if match and family in registry.names():
        k = int(match["k"])
        if k < 1:
            raise UsageError(f'metric "{name}" needs a K of at least 1; choose a larger K')
        entry = registry[family]
        own = replace(entry.card, name=name, label=re.sub(r"K$", str(k), entry.card.label))
        return ResolvedMetric(name, own, partial(entry.target, k=k), k)
    if family.endswith("_at_K") and name in registry.names():
        raise UsageError(f'metric "{name}" needs a number for K; write e.g. {name[:-1]}8')
    raise UsageError(f'unknown metric "{name}"{did_you_mean(name, registry.names())}')
