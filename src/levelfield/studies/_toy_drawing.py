"""The figure of a toy: the data, both embeddings and their spectra."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from levelfield.reports.figures import Axis, Panel, PanelChart, Trace
from levelfield.studies._toy_training import Networks, Toy

OUTWARDS = 1.15  # the test embeddings go on a larger circle, or they would hide the training ones

MARKERS: dict[str, Literal["ring", "cross"]] = {"training": "ring", "test": "cross"}


@torch.no_grad()
def toy_chart(toy: Toy, plain: Networks, regularised: Networks, *, p_switch: float) -> PanelChart:
    """The first network of each kind, and the singular values of all of them."""
    kinds = {"without switches": plain, f"p_switch = {p_switch:g}": regularised}
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
        beside = tuple(place for place in x for _ in range(len(shares)))
        spectra.append(Trace(name, beside, each, colour=4 + number, quiet=True, faint=True))
        spectra.append(Trace(name, x, tuple(shares.mean(dim=0).tolist()), "joined", 4 + number))
    title = f"singular values, mean and all {len(shares)} seeds"
    ticks = Axis("", ticks=("first", "second"))
    panels.append(Panel(ticks, tuple(spectra), title=title, y=Axis("share of the sum")))
    return PanelChart(
        f"{toy.title}; in the embeddings the test classes are moved outwards", Axis(""), tuple(panels)
    )


def _map(title: str, train: Tensor, test: Tensor) -> Panel:
    """Training and test lines in the plane, a colour per class."""
    traces = []
    for part, lines in (("training", train), ("test", test)):
        for colour, line in enumerate(lines):
            x, y = line.T.tolist()
            name = f"{part} class {colour}"
            traces.append(Trace(name, tuple(x), tuple(y), colour=colour, quiet=True, marker=MARKERS[part]))
    return Panel(Axis(""), tuple(traces), title=title, square=True)
