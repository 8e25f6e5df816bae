"""Can Recall@1 tell a good space from a poor one? The reality check's Figure 1.

Three flat spaces of two classes in layers. In all three a sample's nearest neighbour is of its class, so
Recall@1 is near 100%, and k-means cuts across the layers, so NMI and F1 say the same of all three. Only MAP@R
sees that the classes are torn into eight layers, four, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.metrics import Scores, evaluate
from levelfield.records import write_json, write_text
from levelfield.reports import Table
from levelfield.reports.figures import Axis, Panel, PanelChart, Trace, write_chart
from levelfield.reports.table import Cell, Entry
from levelfield.seeds import torch_generator

MEASURES = ("precision_at_1", "recall_at_2", "r_precision", "map_at_r", "nmi", "f1")
LAYERS = {"torn": 8, "mixed": 4, "apart": 2}
LENGTH, HEIGHT = 8.0, 3.0


@dataclass(frozen=True)
class Toy:
    """One space: points (N, 2) and their class (N,), 0 or 1."""

    name: str
    points: Tensor
    labels: Tensor


def layers(name: str, count: int, *, samples: int, seed: int) -> Toy:
    """``count`` thin layers of alternating class, one above the other, on the same height in all.

    Example:
        >>> layers("torn", 8, samples=400, seed=0).points.shape
        torch.Size([400, 2])
    """
    generator = torch_generator("metrics-on-toys", name, seed)
    layer = torch.arange(samples) % count
    across = LENGTH * torch.rand(samples, generator=generator)
    thickness = 0.15 * HEIGHT / (count - 1)
    up = HEIGHT * layer / (count - 1) + thickness * torch.randn(samples, generator=generator)
    return Toy(name, torch.stack([across, up], 1), layer % 2)


def run(
    out: Path, *, seed: int = 0, samples: int = 800, advance: Callable[[str], None] | None = None
) -> dict[str, Scores]:
    """Score the toys, and write ``metrics-on-toys.md``, ``.json``, ``.png`` and ``.html`` into ``out``.

    Args:
        out: A folder; made if it does not exist.
        seed: Seeds the points and k-means.
        samples: Points per toy.
        advance: Called with a description before each piece of work.
    """
    if samples < 32:
        raise UsageError(f"metrics-on-toys needs at least 32 samples, got {samples}")
    out.mkdir(parents=True, exist_ok=True)
    toys = [layers(name, count, samples=samples, seed=seed) for name, count in LAYERS.items()]
    found = {}
    for toy in toys:
        if advance is not None:
            advance(f"the space {toy.name}")
        found[toy.name] = evaluate(toy.points, toy.labels, metrics=MEASURES, distance="euclidean", seed=seed)
    write_json(out / "metrics-on-toys.json", {name: scores.as_dict() for name, scores in found.items()})
    write_text(out / "metrics-on-toys.md", _as_markdown(found))
    write_chart(_chart(toys, found), out, "metrics-on-toys")
    return found


def _as_markdown(found: dict[str, Scores]) -> str:
    rows: list[list[Entry]] = [
        [name, *(Cell(f"{100 * value:.1f}", value=value) for value in scores.values())]
        for name, scores in found.items()
    ]
    table = Table.of(["space", *MEASURES], rows)
    return "\n".join(
        ["# Metrics on toys", "", "Three spaces of two classes, in percent.", "", table.markdown(), ""]
    )


def _chart(toys: Sequence[Toy], found: dict[str, Scores]) -> PanelChart:
    """The points of each space, and what the measures say of it."""
    panels = []
    for toy in toys:
        traces = []
        for label in (0, 1):
            x, y = toy.points[toy.labels == label].T.tolist()
            traces.append(Trace(f"class {label}", tuple(x), tuple(y), colour=label))
        shown = (
            f"{name} {100 * found[toy.name][name]:.1f}"
            for name in ("precision_at_1", "nmi", "f1", "map_at_r")
        )
        panels.append(Panel(Axis(""), tuple(traces), title=f"{toy.name}: {', '.join(shown)}", square=True))
    return PanelChart("Three spaces that Recall@1 cannot tell apart", Axis(""), tuple(panels))
