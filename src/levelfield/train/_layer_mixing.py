"""Manifold mixup inside the trunk: the output of a layer is blended, drawn anew for each batch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.models import Embedder, Trunk
from levelfield.samplers.mixup import MixedBatch, draw_mixing


class LayerMixing:
    """Mixup at one of several layers of a trunk.

    The hooks stay on the layers, and do nothing in evaluation mode. They are not removed after the forward
    pass, because a pass that recomputes activations (``engine.recompute``) needs them in the backward pass.

    Args:
        trunk: Trunk whose layers are mixed.
        layers: Names of layers, separated by commas, such as "layer1,layer2".
    """

    def __init__(self, trunk: Trunk, layers: str) -> None:
        self._trunk = trunk
        self._layers = list(find_layers(trunk, layers).values())
        self._current: tuple[nn.Module, Tensor, float] | None = None
        for layer in self._layers:
            layer.register_forward_hook(self._blend)

    def mix(
        self, embedder: Embedder, inputs: Tensor, labels: Tensor, *, alpha: float, generator: torch.Generator
    ) -> MixedBatch:
        """Return the pooled features (B x F) of ``inputs``, mixed in a random layer."""
        partner, weight = draw_mixing(len(labels), alpha=alpha, generator=generator)
        chosen = int(torch.randint(len(self._layers), (), generator=generator))
        self._current = self._layers[chosen], partner, weight
        return MixedBatch(embedder.features(inputs), labels, labels[partner.to(labels.device)], weight)

    def _blend(self, layer: nn.Module, _: Any, output: Any) -> Any:
        if self._current is None or self._current[0] is not layer or not self._trunk.training:
            return output
        _, partner, weight = self._current
        if not isinstance(output, Tensor) or len(output) != len(partner):
            raise UsageError(
                "mixup.layers names a layer that does not return one tensor with a row per sample; choose "
                "another layer"
            )
        return weight * output + (1 - weight) * output[partner.to(output.device)]


def find_layers(trunk: Trunk, layers: str) -> dict[str, nn.Module]:
    """Return the layers of ``trunk`` by name; raise UsageError for a name that it does not have."""
    known = {name.partition(".")[2]: layer for name, layer in trunk.named_modules() if "." in name}
    names = [name.strip() for name in layers.split(",")]
    for name in names:
        if name not in known:
            top = [each for each in known if "." not in each]
            hint = did_you_mean(name, list(known)) or f"; choose among {', '.join(top[:12])}"
            raise UsageError(f'mixup.layers: trunk {trunk.name} has no layer "{name}"{hint}')
    return {name: known[name] for name in names}
