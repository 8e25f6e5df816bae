"""Rank diagrams: methods on a line, with bars over methods that are not distinguishable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from levelfield.stats import Friedman

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEP, BAR = 0.5, 0.3  # height of a name, height of a bar


def critical_difference_diagram(result: Friedman) -> Figure:
    """Draw Demsar's diagram of a Friedman + Nemenyi result, as a matplotlib figure.

    Example:
        >>> from levelfield.stats import friedman
        >>> result = friedman({f"set {i}": {"a": 3.0, "b": 2.0, "c": 1.0} for i in range(5)})
        >>> critical_difference_diagram(result).axes[0].get_title()
        'Mean rank over 5 cases; a bar joins methods that are not distinguishable (CD = 1.48, alpha = 0.05)'
    """
    last = len(result.mean_ranks)
    title = (
        f"Mean rank over {result.cases} cases; a bar joins methods that are not distinguishable "
        f"(CD = {result.critical_difference:.2f}, alpha = {result.alpha:g})"
    )
    figure = group_diagram(
        result.mean_ranks,
        result.groups,
        ends=(1.0, float(last)),
        ticks={float(rank): str(rank) for rank in range(1, last + 1)},
        title=title,
    )
    share = result.critical_difference / (last - 1)
    if share <= 1:  # a longer bar does not fit, and no methods are distinguishable
        axes = figure.axes[0]
        axes.set_ylim(top=1.4)
        axes.plot([0, share], [0.95, 0.95], color="black", lw=2)
        axes.text(share / 2, 1.0, "CD", ha="center", va="bottom", fontsize=9)
    return figure


def group_diagram(
    places: Mapping[str, float],
    groups: Sequence[Sequence[str]],
    *,
    ends: tuple[float, float],
    ticks: Mapping[float, str],
    title: str,
    digits: int = 2,
) -> Figure:
    """Draw methods on a line and a bar over each group, as a matplotlib figure.

    Args:
        places: Position of each method, best first.
        groups: Methods under each bar, adjacent in ``places``.
        ends: Values at the left and the right end of the line.
        ticks: Labels along the line, by value.
        title: Title of the diagram.
        digits: Digits of the values after the method names.
    """
    from matplotlib.figure import Figure

    def at(value: float) -> float:
        return (value - ends[0]) / ((ends[1] - ends[0]) or 1.0)

    methods = list(places)
    left = methods[: math.ceil(len(methods) / 2)]
    depth = STEP * (len(left) + 1) + BAR * len(groups)
    figure = Figure(figsize=(9, 1.2 + 0.55 * depth), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlim(-0.06, 1.06)
    axes.set_ylim(-depth, 0.8)
    axes.axis("off")
    axes.set_title(title, fontsize=9)
    axes.plot([0, 1], [0, 0], color="black", lw=1)
    for value, words in ticks.items():
        axes.plot([at(value), at(value)], [0, 0.12], color="black", lw=1)
        axes.text(at(value), 0.18, words, ha="center", va="bottom", fontsize=9)
    for level, group in enumerate(groups):
        joined = [at(places[group[0]]) - 0.004, at(places[group[-1]]) + 0.004]
        bar = -0.2 - BAR * level
        axes.plot(joined, [bar, bar], color="tab:red", lw=4, solid_capstyle="butt")
    _write_names(
        axes, {m: (at(v), f"{m} ({v:.{digits}f})") for m, v in places.items()}, left, -BAR * len(groups)
    )
    return figure


def _write_names(
    axes: Axes, names: Mapping[str, tuple[float, str]], left: Sequence[str], under: float
) -> None:
    """Write the better half on the left, best on top; the other half on the right, worst on top."""
    right = [method for method in reversed(list(names)) if method not in left]
    for side, edge, outwards, align in ((left, -0.01, -0.004, "right"), (right, 1.01, 0.004, "left")):
        for number, method in enumerate(side):
            (place, words), height = names[method], under - STEP * (number + 1)
            axes.plot([place, place, edge], [0, height, height], color="gray", lw=0.8)
            axes.text(edge + outwards, height, words, ha=align, va="center", fontsize=9)
