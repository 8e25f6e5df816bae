"""Search spaces: the ranges of hyperparameters.

The card of a loss or miner holds its search space; ``protocol/`` translates it for Optuna.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = float | int | str | bool

MAX_BOUND = 1e18  # larger bounds overflow in the optimizer


@dataclass(frozen=True)
class Float:
    """Real number in [low, high]; ``log`` searches on a logarithmic scale, ``step`` on a grid.

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
        """Return whether ``value`` is a number inside the range."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return math.isfinite(value) and self.low <= value <= self.high


@dataclass(frozen=True)
class Int:
    """Integer in [low, high].

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
        """Return whether ``value`` is an integer inside the range."""
        return isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high


@dataclass(frozen=True, init=False)
class Choice:
    """Categorical choice between a few values.

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
        """Return whether ``value`` is one of the options."""
        return value in self.options


Dimension: TypeAlias = Float | Int | Choice
Space: TypeAlias = Mapping[str, Dimension]


def describe_range(dimension: Dimension) -> str:
    """Return a short description of the range, for tables.

    Example:
        >>> describe_range(Float(0.001, 1.0, log=True)), describe_range(Choice("a", "b"))
        ('0.001..1 log', 'a | b')
    """
    match dimension:
        case Choice(options=options):
            return " | ".join(str(option) for option in options)
        case Float(low=low, high=high, log=log):
            return f"{low:g}..{high:g}" + (" log" if log else "")
        case Int(low=low, high=high, log=log):
            return f"{low}..{high} whole" + (" log" if log else "")


def range_values(dimension: Dimension) -> tuple[Value, ...]:
    """Return the bounds of a range, or the options of a choice.

    Example:
        >>> range_values(Int(1, 9)), range_values(Choice("a", "b"))
        ((1, 9), ('a', 'b'))
    """
    return dimension.options if isinstance(dimension, Choice) else (dimension.low, dimension.high)


def check_bounds(low: float, high: float, *, log: bool, step: float | None = None) -> None:
    """Raise ValueError for an empty or too large range, a logarithmic range with low <= 0, or a step <= 0."""
    if not low <= high:
        raise ValueError(f"a range needs low <= high, got {low} and {high}")
    if max(abs(low), abs(high)) > MAX_BOUND:
        raise ValueError(f"a range needs bounds between -{MAX_BOUND:g} and {MAX_BOUND:g}")
    if step is not None and not 0 < step <= MAX_BOUND:
        raise ValueError(f"a step must be above 0, got {step}")
    if log and low <= 0:
        raise ValueError(f"a logarithmic range needs low > 0, got {low}")
