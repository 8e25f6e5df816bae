"""Metrics of three toy spaces that Recall@1 cannot distinguish: Figure 1 of the reality check.

Three 2-D spaces have two classes in layers. In all three a sample's nearest neighbor has its class, so
Recall@1 is near 100%. K-means cuts across the layers, so NMI and F1 are the same for all three. Only MAP@R
depends on whether the classes form eight layers, four, or two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.core.seeds import torch_generator
from levelfield.metrics import Scores, evaluate
from levelfield.records import write_json, write_text
from levelfield.reports import Table
from levelfield.reports.figures import Axis, Panel, PanelChart, Trace, write_chart
from levelfield.reports.table import TableCell, TableEntry

METRICS = ("precision_at_1", "recall_at_2", "r_precision", "map_at_r", "nmi", "f1")
LAYERS = {"torn": 8, "mixed": 4, "apart": 2}
LENGTH, HEIGHT = 8.0, 3.0


@dataclass(frozen=True)
class LayeredSpace:
    """Toy space: points (N, 2) and their classes (N,), 0 or 1."""

    name: str
    points: Tensor
    labels: Tensor


def make_layers(name: str, count: int, *, samples: int, seed: int) -> LayeredSpace:
    """Return a space of ``count`` thin layers of alternating class, with the same total height for any count.

    Example:
        >>> make_layers("torn", 8, samples=400, seed=0).points.shape
        torch.Size([400, 2])
    """
    generator = torch_generator("metrics-on-toys", name, seed)
    layer = torch.arange(samples) % count
    across = LENGTH * torch.rand(samples, generator=generator)
    thickness = 0.15 * HEIGHT / (count - 1)
    up = HEIGHT * layer / (count - 1) + thickness * torch.randn(samples, generator=generator)
    return LayeredSpace(name, torch.stack([across, up], 1), layer % 2)


def run_study(
    out: Path, *, seed: int = 0, samples: int = 800, advance: Callable[[str], None] | None = None
) -> dict[str, Scores]:
    """Score the spaces, and write ``metrics-on-toys.md``, ``.json``, ``.png`` and ``.html`` into ``out``.

    Args:
        out: Output directory; created if missing.
        seed: Seed of the points and of k-means.
        samples: Points per space.
        advance: Called with a description before each step.
    """
    if samples < 32:
        raise UsageError(f"metrics-on-toys needs at least 32 samples, got {samples}")
    out.mkdir(parents=True, exist_ok=True)
    spaces = [make_layers(name, count, samples=samples, seed=seed) for name, count in LAYERS.items()]
    found = {}
    for space in spaces:
        if advance is not None:
            advance(f"the space {space.name}")
        found[space.name] = evaluate(
            space.points, space.labels, metrics=METRICS, distance="euclidean", seed=seed
        )
    write_json(out / "metrics-on-toys.json", {name: scores.as_dict() for name, scores in found.items()})
    write_text(out / "metrics-on-toys.md", _as_markdown(found))
    write_chart(_chart(spaces, found), out, "metrics-on-toys")
    return found


def _as_markdown(found: dict[str, Scores]) -> str:
    rows: list[list[TableEntry]] = [
        [name, *(TableCell(f"{100 * value:.1f}", value=value) for value in scores.values())]
        for name, scores in found.items()
    ]
    table = Table.from_rows(["space", *METRICS], rows)
    return "\n".join(
        ["# Metrics on toys", "", "Three spaces of two classes, in percent.", "", table.markdown(), ""]
    )


def _chart(spaces: Sequence[LayeredSpace], found: dict[str, Scores]) -> PanelChart:
    """Return a chart of each space's points, with its scores as the title."""
    panels = []
    for space in spaces:
        traces = []
        for label in (0, 1):
            x, y = space.points[space.labels == label].T.tolist()
            traces.append(Trace(f"class {label}", tuple(x), tuple(y), color=label))
        shown = (
            f"{name} {100 * found[space.name][name]:.1f}"
            for name in ("precision_at_1", "nmi", "f1", "map_at_r")
        )
        panels.append(Panel(Axis(""), tuple(traces), title=f"{space.name}: {', '.join(shown)}", square=True))
    return PanelChart("Three spaces that Recall@1 cannot tell apart", Axis(""), tuple(panels))
