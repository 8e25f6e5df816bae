"""Figures of the reality check, drawn from its records; each is readable at the width of a phone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from arenas import Arena
from dependence import Repeated
from overview import Overview

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, LEADS, REST, QUIET = "#333333", "#1b7837", "#8c96a8", "#b2182b"
VERDICTS = {"better": LEADS, "worse": QUIET, "equivalent": "#fee08b", "undecided": "#eeeeee"}
SETS = ("#4477aa", "#ee6677", "#ccbb44", "#66ccee", "#aa3377")  # one color per dataset
WIDTH = 5.4
FAR = 4  # times the distance of the best and the worst method
FACTOR_WORDS = {
    "search": "nothing but luck",
    "budget": "the tuning budget",
    "dataset": "the dataset",
    "trunk": "the pretrained network",
    "schedule": "rate and length",
    "mode": "the trained layers",
}


def overall(overview: Overview) -> Figure:
    """Draw each method's mean over the datasets, relative to the average method, with its interval."""
    from matplotlib.figure import Figure

    methods, half = list(overview.gains), overview.half_widths
    figure = Figure(figsize=(WIDTH, 1.7 + 0.27 * len(methods)), layout="constrained")
    axes = figure.subplots()
    average = overview.average_gains
    for row, method in enumerate(methods):
        color = LEADS if method in overview.candidates else REST
        at, width = overview.above_average[method], half.get(method, 0.0)
        axes.plot([at - width, at + width], [row, row], color=color, lw=5, alpha=0.35, solid_capstyle="butt")
        axes.plot(at, row, "o", color=color, ms=7, zorder=3)
        if len(overview.arenas) > 1:
            for arena, shade in zip(overview.arenas, SETS, strict=False):
                axes.plot(arena.gains[method] - average[arena.dataset], row, "|", color=shade, ms=9, mew=2)
    axes.axvline(0, color=INK, lw=0.8, alpha=0.6)
    if len(overview.arenas) > 1:
        for arena, shade in zip(overview.arenas, SETS, strict=False):
            axes.plot([], [], "|", color=shade, ms=9, mew=2, label=arena.dataset)
        figure.legend(loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    _style(axes, methods, "points of MAP@R above or below the average method")
    where = ", ".join(f"{dataset} {-gain:+.1f}" for dataset, gain in average.items())
    axes.set_title(fill(f"pretrained features: {where}", 44), fontsize=9, loc="left", color=QUIET)
    return figure


def standing(arena: Arena) -> Figure:
    """Draw every method's mean, and the interval of its distance to the best mean."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 1.2 + 0.27 * len(arena.methods)), layout="constrained")
    axes = figure.subplots()
    best = 100 * arena.means[arena.methods[0]]
    for row, method in enumerate(arena.methods):
        color = LEADS if method in arena.leaders else REST
        if row > 0:
            pair = arena.behind_best(method)
            ends = [best - 100 * pair.high, best - 100 * pair.low]
            axes.plot(ends, [row, row], color=color, lw=5, alpha=0.35, solid_capstyle="butt")
        axes.plot(100 * arena.means[method], row, "o", color=color, ms=7)
    axes.axvline(best, color=LEADS, lw=0.8, alpha=0.6)
    pretrained = 100 * arena.means[arena.baseline]
    if best - pretrained > FAR * arena.spread:  # the line would press all methods together
        axes.set_title(f"{arena.baseline}: {pretrained:.1f}", fontsize=9, loc="left", color=QUIET)
    else:
        axes.axvline(pretrained, color=QUIET, lw=1, ls="--")
        axes.text(pretrained, -1, f" {arena.baseline}", color=QUIET, fontsize=9, va="center")
    _style(axes, arena.methods, "test MAP@R of the concatenated models, percent")
    axes.set_ylim(len(arena.methods) - 0.4, -1.6)
    return figure


def _style(axes: Axes, methods: Sequence[str], label: str) -> None:
    axes.set_yticks(range(len(methods)), methods, fontsize=9)
    axes.set_ylim(len(methods) - 0.4, -0.8)
    axes.set_xlabel(label, fontsize=9)
    axes.tick_params(axis="x", labelsize=9)
    axes.grid(axis="x", color="#eeeeee")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def verdicts(arena: Arena) -> Figure:
    """Draw every pair of methods: better, worse, equivalent within half a point, undecided."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    names, order = list(VERDICTS), arena.methods
    size = 1.9 + 0.22 * len(order)
    figure = Figure(figsize=(WIDTH, max(2.8, size)), layout="constrained")
    axes = figure.subplots()
    grid = np.full((len(order), len(order)), np.nan)
    for pair in arena.pairs:
        for one in (pair, pair.swapped()):
            grid[order.index(one.first), order.index(one.second)] = names.index(one.verdict)
    axes.imshow(grid, cmap=ListedColormap(list(VERDICTS.values())), vmin=-0.5, vmax=3.5)
    axes.set_yticks(range(len(order)), order, fontsize=8)
    axes.set_xticks(range(len(order)), order, fontsize=8, rotation=90)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    named = {name: name for name in VERDICTS} | {"equivalent": "equal within half a point"}
    handles = [Patch(color=color, label=named[name]) for name, color in VERDICTS.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    return figure


def agreements(found: Sequence[Repeated]) -> Figure:
    """Draw the agreement of the orders of two measurements, by what differs between them."""
    from matplotlib.figure import Figure

    factors = [factor for factor in FACTOR_WORDS if any(each.factor == factor for each in found)]
    figure = Figure(figsize=(WIDTH, 1.0 + 0.4 * len(factors)), layout="constrained")
    axes = figure.subplots()
    for row, factor in enumerate(factors):
        own = [each.agreement for each in found if each.factor == factor]
        for shift, each in zip(np.linspace(-0.2, 0.2, len(own)) if len(own) > 1 else [0.0], own, strict=True):
            color = LEADS if factor == "search" else SETS[0]
            if "[" in str(each):
                axes.plot([each.low, each.high], [row + shift] * 2, color=color, lw=2, alpha=0.4)
            axes.plot(
                each.tau, row + shift, "o", color=color, ms=6, mfc=color if "[" in str(each) else "white"
            )
    axes.set_xlim(-1.04, 1.04)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1])
    axes.axvline(0, color=INK, lw=0.8, alpha=0.6)
    _style(axes, [FACTOR_WORDS[factor] for factor in factors], "agreement of two orders (Kendall's tau)")
    axes.set_ylim(len(factors) - 0.5, -0.5)
    return figure


def by_year(gains: Mapping[str, float], published_in: Mapping[str, int], label: str) -> Figure:
    """Draw the score of each method against its year, with the fitted line."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    methods = [method for method in gains if published_in.get(method)]
    x = np.array([published_in[m] for m in methods], dtype=float)
    y = np.array([gains[m] for m in methods])
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(x, y, "o", color=SETS[0], ms=6, alpha=0.8)
    slope, start = np.polyfit(x, y, 1)
    ends = np.array([x.min(), x.max()])
    axes.plot(ends, start + slope * ends, color=INK, lw=1, ls="--")
    for k in {int(y.argmax()), int(y.argmin()), int(x.argmax()), int(x.argmin())}:
        right = x[k] > x.mean()
        axes.annotate(
            methods[k],
            (x[k], y[k]),
            xytext=(-6 if right else 6, 4),
            textcoords="offset points",
            ha="right" if right else "left",
            fontsize=8,
        )
    axes.set_ylim(min(0.0, y.min()) - 0.1, y.max() * 1.15)
    axes.set_xlabel("year of publication", fontsize=9)
    axes.set_ylabel(label, fontsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(labelsize=9)
    axes.grid(color="#eeeeee")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure
