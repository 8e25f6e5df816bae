"""Images of losses: the formula, and the gradient field."""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from matplotlib.figure import Figure

import levelfield as lf
from levelfield.core.registry import RegistryEntry
from levelfield.losses import LossCard

mpl.rcParams["svg.hashsalt"] = "levelfield"  # the same figure gives the same bytes
ARROWS = 17
# Two classes in the plane, partly separated.
OWN = torch.tensor([[0.95, 0.35], [0.75, 0.80]])
OTHERS = torch.tensor([[-0.30, 1.00], [0.35, -0.95], [-0.95, -0.30]])


def formula_svg(text: str) -> str:
    """Return a formula as SVG in the color of the surrounding text."""
    figure = Figure(figsize=(0.1, 0.1))
    figure.text(0, 0, f"${text}$", fontsize=15, math_fontfamily="cm")
    file = io.StringIO()
    figure.savefig(
        file, format="svg", bbox_inches="tight", pad_inches=0.05, transparent=True, metadata={"Date": None}
    )
    svg = file.getvalue()
    return svg[svg.index("<svg") :].replace("<svg ", '<svg role="img" fill="currentColor" ', 1)


def field_png(entry: RegistryEntry[LossCard]) -> bytes:
    """Return the gradient field of a loss and its values, for a sample of the blue class, as PNG."""
    axis = torch.linspace(-1.35, 1.35, ARROWS)
    places = torch.cartesian_prod(axis, axis)
    values, forces = zip(*(_at(entry, place) for place in places), strict=True)
    loss = np.array(values).reshape(ARROWS, ARROWS).T
    push = np.array(forces).reshape(ARROWS, ARROWS, 2).transpose(1, 0, 2)
    length = np.linalg.norm(push, axis=2, keepdims=True)
    largest = np.quantile(length[np.isfinite(length)], 0.95) or 1.0
    arrows = push / np.maximum(length, 1e-12) * np.sqrt(np.minimum(length / largest, 1.0))
    figure = Figure(figsize=(4.2, 4.0), layout="constrained")
    plot = figure.add_subplot()
    grid = axis.numpy()
    edge = float(grid[-1])
    shown = plot.imshow(
        loss,
        cmap="Grays",
        alpha=0.7,
        origin="lower",
        extent=(-edge, edge, -edge, edge),
        interpolation="bilinear",
    )
    plot.quiver(grid, grid, arrows[..., 0], arrows[..., 1], color="#1a56db", scale=22, width=0.005)
    plot.add_patch(mpl.patches.Circle((0, 0), 1, fill=False, color="#777777", linestyle=":"))
    own, others = _shown_points(entry)
    plot.scatter(own[:, 0], own[:, 1], color="#1a56db", s=60, edgecolor="white", zorder=3, label="own class")
    plot.scatter(
        others[:, 0],
        others[:, 1],
        color="#d9480f",
        marker="s",
        s=60,
        edgecolor="white",
        zorder=3,
        label="other class",
    )
    plot.legend(loc="lower left", fontsize=8, framealpha=0.9)
    plot.set(aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    figure.colorbar(shown, ax=plot, shrink=0.75, label="loss")
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110, metadata={"Software": None})
    return file.getvalue()


def _loss(entry: RegistryEntry[LossCard]) -> Any:
    options: dict[str, Any] = {}
    if entry.card.kind == "classification":
        options = {"num_classes": 2, "embedding_size": 2, "seed": 0}
    elif "num_classes" in entry.parameters:
        options = {"num_classes": 2}
    loss = lf.losses.create(entry.name, **options)
    weights = getattr(loss, "weights", None)
    if entry.card.kind == "classification" and isinstance(weights, torch.nn.Parameter):
        centers = torch.stack([OWN.mean(0), OTHERS[-1]])
        with torch.no_grad():
            flat = weights.reshape(-1, 2) if weights.shape[-1] == 2 else weights.T.reshape(-1, 2)
            repeated = centers.repeat_interleave(len(flat) // 2, 0)
            turned = repeated + 0.15 * torch.randn(repeated.shape, generator=torch.Generator().manual_seed(0))
            flat.copy_(torch.nn.functional.normalize(turned if len(flat) > 2 else repeated, dim=1))
    return loss.eval()


def _shown_points(entry: RegistryEntry[LossCard]) -> tuple[np.ndarray, np.ndarray]:
    if entry.card.kind == "classification":
        return OWN.mean(0, keepdim=True).numpy(), OTHERS[-1:].numpy()
    return OWN.numpy(), OTHERS.numpy()


def _at(entry: RegistryEntry[LossCard], place: torch.Tensor) -> tuple[float, list[float]]:
    """Return the loss with the sample at ``place``, and minus its gradient with respect to the sample."""
    sample = place.clone().requires_grad_(True)
    if entry.card.kind == "classification":
        batch, labels = sample[None], torch.tensor([0])
    else:
        batch = torch.cat([sample[None], OWN, OTHERS])
        labels = torch.tensor([0] * (1 + len(OWN)) + [1] * len(OTHERS))
        if entry.name == "quadruplet":
            labels[-1] = 2  # it needs a third class
    value = _cached_loss(entry)(batch, labels)
    if value.requires_grad:
        value.backward()
    gradient = sample.grad if sample.grad is not None else torch.zeros(2)
    return float(value.detach()), (-gradient).tolist()


_LOSSES: dict[str, Any] = {}


def _cached_loss(entry: RegistryEntry[LossCard]) -> Any:
    if entry.name not in _LOSSES:
        _LOSSES[entry.name] = _loss(entry)
    return _LOSSES[entry.name]
