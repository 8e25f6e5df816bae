"""The registry of measures, and how a name such as ``recall_at_8`` finds its measure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from levelfield.errors import UsageError, did_you_mean
from levelfield.registry import Card, Registry

Depth: TypeAlias = int | Literal["k", "r", "r+1", "all"]


@dataclass(frozen=True, kw_only=True)
class MetricCard(Card):
    """A measure's card.

    Attributes:
        kind: "retrieval" measures take :class:`Hits` and give one value per query, "clustering" measures take
            a contingency table, "structure" measures take a :class:`Space`; both give one number.
        depth: How far down the ranking a retrieval measure looks: a number, its own K ("k"), the number of
            relevant items ("r", or "r+1" if the query counts among them), or everything ("all").
        first: Whether a retrieval measure only asks for the best-ranked relevant item. The search can
            then stop there.
    """

    kind: Literal["retrieval", "clustering", "structure"] = "retrieval"
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
register = registry.register

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
        return Measure(name, entry.card, partial(entry.target, k=k), k)
    if family.endswith("_at_K") and name in registry.names():
        raise UsageError(f'metric "{name}" needs a number for K, such as {name[:-1]}8')
    raise UsageError(f'unknown metric "{name}"{did_you_mean(name, registry.names())}')
