"""Contract of a card: it describes the plug-in, and its search space fits the constructor."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from levelfield.core.registry import RegistryEntry
from levelfield.testing._run import Checks, run_checks


def check_card(entry: RegistryEntry[Any], *, published: bool = False) -> None:
    """Check the card of a registered plug-in; raise AssertionError that lists all problems.

    Args:
        entry: Registry entry, e.g. ``levelfield.losses.registry["triplet"]``.
        published: Whether the card must name a paper and a year.

    Example:
        >>> from levelfield import losses
        >>> check_card(losses.registry["triplet"], published=True)
        card of triplet
          ok: the card has a summary
          ok: the search space fits the parameters and their defaults
          ok: the card names a paper and a year
    """
    checks: Checks[RegistryEntry[Any]] = {
        "the card has a summary": _summary,
        "the search space fits the parameters and their defaults": _space,
        **({"the card names a paper and a year": _paper} if published else {}),
    }
    run_checks(f"card of {entry.name}", entry, checks)


def _summary(entry: RegistryEntry[Any]) -> Iterator[str]:
    if not entry.card.summary.strip():
        yield "there is no summary; give the class a docstring"


def _paper(entry: RegistryEntry[Any]) -> Iterator[str]:
    if not entry.card.paper:
        yield "there is no paper; name it with paper="
    if entry.card.year is None:
        yield "there is no year; give it with year="


def _space(entry: RegistryEntry[Any]) -> Iterator[str]:
    for name, dimension in entry.card.space.items():
        parameter = entry.parameters.get(name)
        if parameter is None:
            yield f'the search space has "{name}", which is not a parameter; remove it'
        elif parameter.default is inspect.Parameter.empty:
            yield f'parameter "{name}" is in the search space, but has no default; add one'
        elif not dimension.contains(parameter.default):
            yield f"the default {name}={parameter.default!r} is outside its range {dimension}"
