"""The contract of a card: it says what the plug-in is, and its search space fits the constructor."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from levelfield.registry import Entry
from levelfield.testing._report import raise_problems


def check_card(entry: Entry[Any], *, published: bool = False) -> None:
    """Check the card of a registered plug-in; AssertionError with everything that is wrong.

    Args:
        entry: From a registry, e.g. ``levelfield.losses.registry["triplet"]``.
        published: Whether the card must name a paper and a year.

    Example:
        >>> from levelfield import losses
        >>> check_card(losses.registry["triplet"], published=True)
    """
    checks = [_summary, _space, *([_paper] if published else [])]
    raise_problems(f"the card of {entry.name}", entry, checks)


def _summary(entry: Entry[Any]) -> Iterator[str]:
    if not entry.card.summary.strip():
        yield "there is no summary; give the class a docstring"


def _paper(entry: Entry[Any]) -> Iterator[str]:
    if not entry.card.paper:
        yield "there is no paper; name it with paper="
    if entry.card.year is None:
        yield "there is no year; give it with year="


def _space(entry: Entry[Any]) -> Iterator[str]:
    for name, dimension in entry.card.space.items():
        parameter = entry.parameters.get(name)
        if parameter is None:
            yield f'the search space has "{name}", which is no parameter'
        elif parameter.default is inspect.Parameter.empty:
            yield f'parameter "{name}" is in the search space and has no default'
        elif not dimension.contains(parameter.default):
            yield f"the default {name}={parameter.default!r} is outside its range {dimension}"
