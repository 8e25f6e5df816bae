"""The critical-difference diagram: mean ranks on a line, bars over what cannot be told apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from levelfield.stats._friedman import Friedman

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def critical_difference_diagram(result: Friedman) -> Figure:
    """Draw Demsar's diagram of a Friedman + Nemenyi result, as a matplotlib figure.

    Example:
        >>> from levelfield.stats import friedman
        >>> result = friedman({f"set {i}": {"a": 3.0, "b": 2.0, "c": 1.0} for i in range(5)})
        >>> critical_difference_diagram(result).axes[0].get_title()
        'Mean rank over 5 cases; a bar joins methods that are not distinguishable (CD = 1.48, alpha = 0.05)'
    """
    from matplotlib.figure import Figure

    methods = list(result.mean_ranks)
    left = methods[: math.ceil(len(methods) / 2)]
    right = methods[len(left) :]
    bars = result.groups
    step = 0.5
    depth = step * (len(left) + 1) + 0.3 * len(bars)
    figure = Figure(figsize=(9, 1.2 + 0.55 * depth), layout="constrained")
    axes = figure.add_subplot()
    low, high = 1, len(methods)
    axes.set_xlim(low - 1.2, high + 1.2)
    axes.set_ylim(-depth, 1.4)
    axes.axis("off")
    axes.set_title(
        f"Mean rank over {result.cases} cases; a bar joins methods that are not distinguishable "
        f"(CD = {result.critical_difference:.2f}, alpha = {result.alpha:g})",
        fontsize=9,
    )
    axes.plot([low, high], [0, 0], color="black", lw=1)
    for rank in range(low, high + 1):
        axes.plot([rank, rank], [0, 0.12], color="black", lw=1)
        axes.text(rank, 0.18, str(rank), ha="center", va="bottom", fontsize=9)
    axes.plot([low, low + result.critical_difference], [0.95, 0.95], color="black", lw=2)
    axes.text(low + result.critical_difference / 2, 1.0, "CD", ha="center", va="bottom", fontsize=9)

    for level, group in enumerate(bars):
        ends = [result.mean_ranks[group[0]] - 0.04, result.mean_ranks[group[-1]] + 0.04]
        bar = -0.2 - 0.3 * level
        axes.plot(ends, [bar, bar], color="tab:red", lw=4, solid_capstyle="butt")

    under = -0.3 * len(bars)
    for side, names in (("left", left), ("right", right[::-1])):
        edge = low - 0.15 if side == "left" else high + 0.15
        for number, method in enumerate(names):
            mean, height = result.mean_ranks[method], under - step * (number + 1)
            axes.plot([mean, mean, edge], [0, height, height], color="gray", lw=0.8)
            label = f"{method} ({mean:.2f})"
            shift = -0.05 if side == "left" else 0.05
            align = "right" if side == "left" else "left"
            axes.text(edge + shift, height, label, ha=align, va="center", fontsize=9)
    return figure
