"""The registry of measures, and how a name such as ``recall_at_8`` finds its measure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from levelfield.errors import UsageError, did_you_mean
from levelfield.registry import Card, Registry

Depth: TypeAlias = int | Literal["k", "r", "r+1", "all"]
Kind: TypeAlias = Literal["retrieval", "clustering", "structure"]
Unit: TypeAlias = Literal["percent", ""]
MeasureT = TypeVar("MeasureT", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class MetricCard(Card):
    """A measure's card.

    Attributes:
        higher_is_better: Which way is better; None if the measure describes a space without judging it. Such
            a measure can be reported, but not select, stop or prune anything, and no table prints a best one.
        label: The name as papers print it, such as "MAP@R"; the K of a family is filled in ("R@8").
        unit: "percent" for shares of 1 that tables print times 100, "" for plain numbers.
        kind: "retrieval" measures take :class:`Hits` and give one value per query, "clustering" measures take
            a contingency table, "structure" measures take a :class:`Space`; both give one number.
        depth: How far down the ranking a retrieval measure looks: a number, its own K ("k"), the number of
            relevant items ("r", or "r+1" if the query counts among them), or everything ("all").
        first: Whether a retrieval measure only asks for the best-ranked relevant item. The search can
            then stop there.
    """

    higher_is_better: bool | None = None
    label: str = ""
    unit: Unit = ""
    kind: Kind = "retrieval"
    depth: Depth = "all"
    first: bool = False


@dataclass(frozen=True)
class Measure:
    """A measure ready to be computed: ``recall_at_K`` with K filled in."""

    name: str
    card: MetricCard
    compute: Callable[..., Any]
    k: int | None = None


registry: Registry[MetricCard] = Registry("metric", MetricCard, package="levelfield.metrics")


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
) -> Callable[[MeasureT], MeasureT]:
    """Decorate a function to make it available as the measure ``name``.

    A name that ends in ``_at_K`` is a family: its function takes the number as a keyword argument ``k``.

    Args:
        name: What experiment files and :func:`evaluate` call it.
        higher_is_better: Which way is better; None if neither is. Then the measure can be reported, but
            cannot select.
        label: The name in tables and figures, such as "MAP@R"; by default ``name``.
        unit: "percent" for shares of 1 that tables print times 100, "" for plain numbers.
        kind: What the function takes and gives: "retrieval" takes :class:`Hits` and gives one value per
            query, float64 (B,); "clustering" takes a :class:`Contingency`, "structure" a :class:`Space`;
            both give one number.
        depth: How far down the ranking a retrieval measure looks: a number, its own K ("k"), the number of
            relevant items ("r", or "r+1"), or everything ("all").
        first: Whether a retrieval measure only asks for the best-ranked relevant item.
        paper: Where it comes from.
        year: When that appeared.

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
    """The card of the measure called ``name``, with the K of a family filled in.

    Example:
        >>> card("recall_at_8").label, card("recall_at_8").higher_is_better
        ('R@8', True)
    """
    return resolve(name).card


def selection_sign(name: str) -> Literal[1, -1]:
    """1 if a larger score is better, -1 if a smaller one is: what to multiply scores by to maximise them.

    A measure without a direction is refused: it cannot select.

    Example:
        >>> selection_sign("map_at_r"), selection_sign("alignment")
        (1, -1)
    """
    higher = card(name).higher_is_better
    if higher is None:
        raise UsageError(
            f'metric "{name}" cannot select: neither more nor less of it is better; '
            "choose one with a direction, such as map_at_r"
        )
    return 1 if higher else -1


_CUTOFF = re.compile(r"^(?P<stem>\w+)_at_(?P<k>\d+)$")


def resolve(name: str) -> Measure:
    """The measure called ``name``; a number after ``_at_`` is the K of a family such as ``recall_at_K``.

    Example:
        >>> resolve("recall_at_8").k
        8
        >>> resolve("recall_at_0")
        Traceback (most recent call last):
        ...
        levelfield.errors.UsageError: metric "recall_at_0" needs a K of at least 1
    """
    if name in registry.names() and not name.endswith("_at_K"):
        entry = registry[name]
        return Measure(name, entry.card, entry.target)
    match = _CUTOFF.match(name)
    family = f"{match['stem']}_at_K" if match else name
    if match and family in registry.names():
        k = int(match["k"])
        if k < 1:
            raise UsageError(f'metric "{name}" needs a K of at least 1')
        entry = registry[family]
        own = replace(entry.card, name=name, label=re.sub(r"K$", str(k), entry.card.label))
        return Measure(name, own, partial(entry.target, k=k), k)
    if family.endswith("_at_K") and name in registry.names():
        raise UsageError(f'metric "{name}" needs a number for K, such as {name[:-1]}8')
    raise UsageError(f'unknown metric "{name}"{did_you_mean(name, registry.names())}')
