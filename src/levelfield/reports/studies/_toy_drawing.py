"""The figure of a toy: the data, both embeddings and their spectra."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from levelfield.records import write_bytes
from levelfield.reports.studies._toy_training import Networks, Toy

COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red")


@torch.no_grad()
def draw_toy(toy: Toy, plain: Networks, regularised: Networks, *, p_switch: float, path: Path) -> None:
    """Draw the first network of each kind, and the singular values of all of them, into a PNG."""
    figure = Figure(figsize=(15, 4), layout="constrained")
    axes = figure.subplots(1, 4)
    _scatter(axes[0], toy.train, toy.test)
    axes[0].set_title("data: training (dots), test (crosses)")
    names = ("without switches", f"p_switch = {p_switch:g}")
    for place, name, networks in ((1, names[0], plain), (2, names[1], regularised)):
        # The test embeddings go on a larger circle, or they would hide the training ones.
        train = networks(toy.train.flatten(0, 1))[0].view_as(toy.train)
        test = 1.15 * networks(toy.test.flatten(0, 1))[0].view_as(toy.test)
        _scatter(axes[place], train, test)
        axes[place].set_title(f"embedding {name}")
    for name, networks, shift, colour in (
        (names[0], plain, -0.1, "tab:gray"),
        (names[1], regularised, 0.1, "tab:purple"),
    ):
        values = torch.linalg.svdvals(networks(toy.train.flatten(0, 1)))
        shares = values / values.sum(dim=1, keepdim=True)
        places = torch.arange(1.0, 3.0) + shift
        axes[3].plot(places, shares.T, ".", color=colour, alpha=0.2)
        axes[3].plot(places, shares.mean(dim=0), "o-", color=colour, label=name)
    axes[3].set_title(f"singular values, mean and all {len(shares)} seeds")
    axes[3].set_xticks([1, 2])
    axes[3].set_ylabel("share of the sum")
    axes[3].legend()
    figure.suptitle(f"{toy.title}; in the embeddings the test classes are moved outwards")
    picture = BytesIO()
    figure.savefig(picture, dpi=110)
    write_bytes(path, picture.getvalue())


def _scatter(axes: Axes, train: Tensor, test: Tensor) -> None:
    for marker, lines in (("o", train), ("x", test)):
        for colour, line in zip(COLOURS, lines, strict=False):
            axes.plot(line[:, 0], line[:, 1], marker, color=colour, markersize=5, fillstyle="none")
    axes.set_aspect("equal")
