"""Figures of the reality check, drawn from its records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from arenas import Arena

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, LEADS, REST, QUIET = "#333333", "#1b7837", "#8c96a8", "#b2182b"
VERDICTS = {"better": LEADS, "worse": QUIET, "equivalent": "#fee08b", "undecided": "#eeeeee"}


def standings(arenas: Sequence[Arena]) -> Figure:
    """Draw every method of every arena: its mean, and the interval of its distance to the best mean."""
    from matplotlib.figure import Figure

    rows = max(len(arena.methods) for arena in arenas)
    figure = Figure(figsize=(5.2 * len(arenas), 1.3 + 0.26 * rows), layout="constrained")
    for axes, arena in zip(figure.subplots(1, len(arenas), squeeze=False)[0], arenas, strict=True):
        _standing(axes, arena)
    return figure


def _standing(axes: Axes, arena: Arena) -> None:
    best = 100 * arena.analysis.means[arena.methods[0]]
    for row, method in enumerate(arena.methods):
        color = LEADS if method in arena.leaders else REST
        if row > 0:
            pair = arena.behind_best(method)
            ends = [best - 100 * pair.high, best - 100 * pair.low]
            axes.plot(ends, [row, row], color=color, lw=2, alpha=0.5, solid_capstyle="butt")
        axes.plot(100 * arena.analysis.means[method], row, "o", color=color, ms=6)
    axes.axvline(best, color=LEADS, lw=0.8, alpha=0.6)
    pretrained = 100 * arena.analysis.means[arena.baseline]
    axes.axvline(pretrained, color=QUIET, lw=1, ls="--")
    axes.text(pretrained, -1, " pretrained", color=QUIET, fontsize=8, va="center")
    axes.set_yticks(range(len(arena.methods)), arena.methods, fontsize=8)
    axes.set_ylim(len(arena.methods) - 0.4, -1.6)
    axes.set_xlabel("test MAP@R of the concatenated models, percent", fontsize=8)
    axes.set_title(arena.title, fontsize=10, loc="left", color=INK)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", color="#eeeeee")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def verdicts(arenas: Sequence[Arena]) -> Figure:
    """Draw every pair of methods of every arena: better, worse, equivalent within half a point, undecided."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    names = list(VERDICTS)
    height = min(6.1, 2.2 + 0.35 * max(len(arena.methods) for arena in arenas))
    figure = Figure(figsize=(5.4 * len(arenas), height), layout="constrained")
    for axes, arena in zip(figure.subplots(1, len(arenas), squeeze=False)[0], arenas, strict=True):
        order = arena.methods
        grid = np.full((len(order), len(order)), np.nan)
        for pair in arena.pairs:
            for one in (pair, pair.swapped()):
                grid[order.index(one.first), order.index(one.second)] = names.index(one.verdict)
        axes.imshow(grid, cmap=ListedColormap(list(VERDICTS.values())), vmin=-0.5, vmax=3.5)
        axes.set_yticks(range(len(order)), order, fontsize=7)
        axes.set_xticks(range(len(order)), order, fontsize=7, rotation=90)
        axes.set_title(f"{arena.title}: row against column", fontsize=9, loc="left", color=INK)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
    named = {name: name for name in VERDICTS} | {"equivalent": "equivalent (within half a point)"}
    handles = [Patch(color=color, label=named[name]) for name, color in VERDICTS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    return figure


def across(one: Arena, other: Arena) -> Figure:
    """Draw the order of the methods in two arenas, and the gain of each over the pretrained features."""
    from matplotlib.figure import Figure

    shared = [method for method in one.methods if method in other.methods]
    figure = Figure(figsize=(7.2, 0.8 + 0.27 * len(shared)), layout="constrained")
    axes = figure.subplots()
    orders = [[method for method in arena.methods if method in shared] for arena in (one, other)]
    for method in shared:
        rows = [order.index(method) for order in orders]
        unbeaten = method in one.leaders and method in other.leaders
        axes.plot((0, 1), rows, "o-", color=LEADS if unbeaten else REST, ms=4, lw=1.2)
        for x, arena, row, side in ((-0.03, one, rows[0], "right"), (1.03, other, rows[1], "left")):
            gain = 100 * (arena.analysis.means[method] - arena.analysis.means[arena.baseline])
            axes.text(x, row, f"{method}  {gain:+.2f}", ha=side, va="center", fontsize=8, color=INK)
    for x, arena in ((0, one), (1, other)):
        axes.text(x, -1.3, arena.title, ha="center", fontsize=9, color=INK, weight="bold")
    axes.set_xlim(-0.75, 1.75)
    axes.set_ylim(len(shared) - 0.4, -2)
    axes.axis("off")
    return figure
