"""Search spaces: the ranges in which a hyperparameter may be looked for.

They live with the loss or miner they belong to; ``protocol/`` translates them for the optimiser.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = float | int | str | bool

LARGEST = 1e18  # bounds beyond are no ranges that anybody searches, and overflow in the optimiser


@dataclass(frozen=True)
class Float:
    """A real number in [low, high]; ``log`` searches its logarithm, ``step`` makes a grid.

    Example:
        >>> Float(0.0, 1.0).contains(0.5), Float(0.0, 1.0).contains(2.0)
        (True, False)
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        check_bounds(self.low, self.high, log=self.log, step=self.step)

    def contains(self, value: object) -> bool:
        """Whether ``value`` is a number inside the range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return math.isfinite(value) and self.low <= value <= self.high


@dataclass(frozen=True)
class Int:
    """A whole number in [low, high].

    Example:
        >>> Int(1, 10).contains(3), Int(1, 10).contains(3.5)
        (True, False)
    """

    low: int
    high: int
    log: bool = False
    step: int = 1

    def __post_init__(self) -> None:
        check_bounds(self.low, self.high, log=self.log, step=self.step)

    def contains(self, value: object) -> bool:
        """Whether ``value`` is a whole number inside the range."""
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high


@dataclass(frozen=True, init=False)
class Choice:
    """One of a few values.

    Example:
        >>> Choice("hard", "semihard").contains("easy")
        False
    """

    options: tuple[Value, ...]

    def __init__(self, *options: Value) -> None:
        if not options:
            raise ValueError("Choice needs at least one option")
        object.__setattr__(self, "options", options)

    def contains(self, value: object) -> bool:
        """Whether ``value`` is one of the options."""
        return value in self.options


Dimension: TypeAlias = Float | Int | Choice
Space: TypeAlias = Mapping[str, Dimension]


def describe(dimension: Dimension) -> str:
    """The range in a few characters, for tables.

    Example:
        >>> describe(Float(0.001, 1.0, log=True)), describe(Choice("a", "b"))
        ('0.001..1 log', 'a | b')
    """
    match dimension:
        case Choice(options=options):
            return " | ".join(str(option) for option in options)
        case Float(low=low, high=high, log=log):
            return f"{low:g}..{high:g}" + (" log" if log else "")
        case Int(low=low, high=high, log=log):
            return f"{low}..{high} whole" + (" log" if log else "")


def values_of(dimension: Dimension) -> tuple[Value, ...]:
    """The values that a range names: its bounds, or its options.

    Example:
        >>> values_of(Int(1, 9)), values_of(Choice("a", "b"))
        ((1, 9), ('a', 'b'))
    """
    return dimension.options if isinstance(dimension, Choice) else (dimension.low, dimension.high)


def check_bounds(low: float, high: float, *, log: bool, step: float | None = None) -> None:
    """Refuse an empty or endless range, a logarithmic one that touches zero, and a step of 0 or less."""
    if not low <= high:
        raise ValueError(f"a range needs low <= high, got {low} and {high}")
    if max(abs(low), abs(high)) > LARGEST:
        raise ValueError(f"a range needs bounds between -{LARGEST:g} and {LARGEST:g}")
    if step is not None and not 0 < step <= LARGEST:
        raise ValueError(f"a step is a number above 0, got {step}")
    if log and low <= 0:
        raise ValueError(f"a logarithmic range needs low > 0, got {low}")
