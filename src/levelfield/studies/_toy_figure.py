"""Figure of a toy dataset: the data, both embeddings and their spectra."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.reports.figures import Axis, Panel, PanelChart, Trace
from levelfield.studies._toy_training import Networks, ToyLines

OUTWARDS = 1.15  # test embeddings are drawn on a larger circle, so that they do not hide the training ones

MARKERS: dict[str, Literal["ring", "cross"]] = {"training": "ring", "test": "cross"}


@torch.no_grad()
def toy_chart(toy: ToyLines, plain: Networks, regularized: Networks, *, p_switch: float) -> PanelChart:
    """Return the chart: the first network of each kind, and the singular values of all networks."""
    kinds = {"without switches": plain, f"p_switch = {p_switch:g}": regularized}
    panels = [_map("data: training (rings), test (crosses)", toy.train, toy.test)]
    for name, networks in kinds.items():
        train = networks(toy.train.flatten(0, 1))[0].view_as(toy.train)
        test = OUTWARDS * networks(toy.test.flatten(0, 1))[0].view_as(toy.test)
        panels.append(_map(f"embedding {name}", train, test))
    spectra: list[Trace] = []
    for number, (name, networks) in enumerate(kinds.items()):
        values = torch.linalg.svdvals(networks(toy.train.flatten(0, 1)))
        shares = values / values.sum(dim=1, keepdim=True)
        shift = 0.2 * number - 0.1
        x = tuple((torch.arange(0.0, 2.0) + shift).tolist())
        each = tuple(shares.T.flatten().tolist())
        beside = tuple(position for position in x for _ in range(len(shares)))
        spectra.append(Trace(name, beside, each, color=4 + number, hide_legend=True, faint=True))
        spectra.append(Trace(name, x, tuple(shares.mean(dim=0).tolist()), "joined", 4 + number))
    title = f"singular values, mean and all {len(shares)} seeds"
    ticks = Axis("", ticks=("first", "second"))
    panels.append(Panel(ticks, tuple(spectra), title=title, y=Axis("share of the sum")))
    return PanelChart(
        f"{toy.title}; in the embeddings the test classes are moved outwards", Axis(""), tuple(panels)
    )


def _map(title: str, train: Tensor, test: Tensor) -> Panel:
    """Return a panel with training and test lines in the plane, one color per class."""
    traces = []
    for part, lines in (("training", train), ("test", test)):
        for color, line in enumerate(lines):
            x, y = line.T.tolist()
            name = f"{part} class {color}"
            traces.append(
                Trace(name, tuple(x), tuple(y), color=color, hide_legend=True, marker=MARKERS[part])
            )
    return Panel(Axis(""), tuple(traces), title=title, square=True)
