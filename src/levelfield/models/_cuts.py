"""Cuts of a trunk into a lower and an upper part.

A cut is named after a module. The lower part is everything that runs before the module. The upper part is the
module and everything after it. The network is traced with torch.fx to find the tensors that cross the cut. A
cut is possible where exactly one tensor crosses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.models._tracing import (
    BlockTracer,
    CostInterpreter,
    cut_obstacle,
    parameters_of,
    possible_cuts,
    split_graph,
    temporary_mode,
    trace_blocks,
    upper_nodes,
)
from levelfield.models._trunk import InputRecipe, Trunk

HEAD = "head"  # cut after the last layer: only the head is trained
BYTES_PER_VALUE = 2  # activations are stored as float16


@dataclass(frozen=True)
class Cut:
    """Possible cut of a trunk.

    Attributes:
        name: First module of the upper part.
        shape: Shape of the tensor that crosses the cut, for one image.
        parameters: Fraction of the trunk's parameters in the upper part.
        multiply_adds: Fraction of the trunk's multiply-adds in the upper part.
    """

    name: str
    shape: tuple[int, ...]
    parameters: float
    multiply_adds: float

    @property
    def bytes(self) -> int:
        """Size of one activation on disk, in bytes: one image, one view, float16."""
        return BYTES_PER_VALUE * torch.Size(self.shape).numel()


class Part(nn.Module):
    """Part of a traced network; it shares the network's tensors, under the same names."""

    def __init__(self, network: nn.Module, *, training: fx.Graph, evaluation: fx.Graph) -> None:
        super().__init__()
        for graph in (training, evaluation):
            for node in graph.nodes:
                if node.op in ("call_module", "get_attr"):
                    _share(network, self, str(node.target))
        # fx compiles each graph to a function of a module with these layers.
        self._run = {
            mode: type(fx.GraphModule(self, graph)).forward
            for mode, graph in ((True, training), (False, evaluation))
        }
        self.training = network.training

    def forward(self, value: Tensor) -> Tensor:
        """Return the output of the part for its single input."""
        output: Tensor = self._run[self.training](self, value)
        return output


class LowerPart(nn.Module):
    """Lower part of a cut trunk: images to activations.

    Attributes:
        trunk: Input preparation and identity of the cut trunk, without layers.
        cut: Name of the cut.
    """

    def __init__(self, trunk: Trunk, part: Part, *, cut: str) -> None:
        super().__init__()
        self.trunk = Trunk(
            nn.Identity(),
            name=trunk.name,
            num_features=0,
            inputs=trunk.inputs,
            image_size=trunk.image_size,
        )
        self.trunk.made_from = trunk.made_from
        self.part = part
        self.cut = cut
        self.training = part.training

    def forward(self, images: Tensor) -> Tensor:
        """Return the activations (B x ...) of images (B x C x H x W)."""
        activations: Tensor = self.part(self.trunk.prepare(images))
        return activations


def split_at_cut(trunk: Trunk, name: str) -> tuple[LowerPart, Trunk]:
    """Return the part of ``trunk`` before module ``name``, and the rest as a trunk on activations.

    Both share their tensors with ``trunk``. Names of tensors are kept, so the state dict of the upper part is
    a subset of that of the whole trunk.

    Example:
        >>> from levelfield import models
        >>> trunk = models.create_trunk("conv4", in_channels=1, width=8).eval()
        >>> lower, upper = split_at_cut(trunk, "2")
        >>> images = torch.rand(2, 1, 32, 32)
        >>> lower(images).shape, torch.equal(upper(lower(images)), trunk(images))
        (torch.Size([2, 8, 8, 8]), True)
    """
    network = trunk.network
    if name not in dict(network.named_modules()) or not name:
        raise UsageError(_unknown_cut_message(trunk, name))
    parents = {name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)}
    graphs = {}
    for training in (True, False):
        try:
            with temporary_mode(network, training=training):
                traced = BlockTracer(parents).trace_network(network)
        except Exception as error:  # forward() on proxies can raise anything
            first = (str(error).splitlines() or [type(error).__name__])[0]
            reason = f"its forward pass cannot be traced ({first})"
            raise UsageError(_impossible_cut_message(trunk, name, reason)) from error
        obstacle = cut_obstacle(traced, name, network)
        if obstacle is not None:
            raise UsageError(_impossible_cut_message(trunk, name, obstacle))
        graphs[training] = split_graph(traced.graph, traced.entries[name])
    lower, upper = (
        Part(network, training=graphs[True][side], evaluation=graphs[False][side]) for side in (0, 1)
    )
    return LowerPart(trunk, lower, cut=name), Trunk(
        upper,
        name=trunk.name,
        num_features=trunk.num_features,
        spatial=trunk.spatial,
        inputs=InputRecipe(mean=(0.0,), std=(1.0,)),
    )


@contextmanager
def _without_gradients(network: nn.Module) -> Iterator[None]:
    """Disable the gradients of all parameters for a while: torch's FLOP counter fails on some of them."""
    trainable = [parameter for parameter in network.parameters() if parameter.requires_grad]
    try:
        for parameter in trainable:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)


def list_cuts(trunk: Trunk, *, image_size: int, channels: int = 3) -> list[Cut]:
    """Return the cuts between the stages and blocks of ``trunk``, from the input to the output.

    Of several cuts with the same trained parameters only the last is listed: it costs least.

    Raises:
        UsageError: The trunk does not accept images of this size.

    Example:
        >>> from levelfield import models
        >>> trunk = models.create_trunk("conv4", in_channels=1, width=8)
        >>> [cut.name for cut in list_cuts(trunk, image_size=32, channels=1)]
        ['0', '1', '2', '3']
    """
    network = trunk.network
    traced = trace_blocks(network)
    if traced is None:
        return []
    image = trunk.prepare(torch.zeros(1, channels, image_size, image_size))
    cost = CostInterpreter(network, traced.graph)
    try:
        with temporary_mode(network, training=False), _without_gradients(network):
            cost.run(image)
    except Exception as error:  # forward() can raise anything
        wanted = f"images of {channels} x {image_size} x {image_size}"
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(
            f"trunk {trunk.name} does not accept {wanted} ({first}); give another --size"
        ) from error
    total = sum(parameter.numel() for parameter in network.parameters())
    cuts: dict[int, Cut] = {}
    for node, name in possible_cuts(traced, network).items():
        upper = upper_nodes(traced.graph, node)
        trained = sum(parameter.numel() for parameter in parameters_of(network, upper))
        cuts[trained] = Cut(
            name=name,
            shape=cost.shapes[node],
            parameters=trained / max(total, 1),
            multiply_adds=sum(cost.flops[n] for n in upper) / max(sum(cost.flops.values()), 1),
        )
    return [cut for trained, cut in cuts.items() if trained]


def _unknown_cut_message(trunk: Trunk, name: str) -> str:
    traced = trace_blocks(trunk.network)
    names = list(possible_cuts(traced, trunk.network).values()) if traced else []
    known = f"; `levelfield ls cuts {trunk.name}` lists its cuts" if names else ""
    return f'trunk {trunk.name} has no module "{name}"{did_you_mean(name, names)}{known}'


def _impossible_cut_message(trunk: Trunk, name: str, reason: str) -> str:
    listed = f"`levelfield ls cuts {trunk.name}` lists its cuts"
    return f"trunk {trunk.name} cannot be cut at {name}: {reason}; {listed}"


def _share(source: nn.Module, target: nn.Module, path: str) -> None:
    """Add the module or tensor at ``path`` of ``source`` to ``target``, under the same path."""
    *parents, name = path.split(".")
    for parent in parents:
        source = getattr(source, parent)
        if parent not in dict(target.named_children()):
            target.add_module(parent, nn.Module())
        target = getattr(target, parent)
    value = getattr(source, name)
    if isinstance(value, nn.Module):
        target.add_module(name, value)
    elif isinstance(value, nn.Parameter):
        target.register_parameter(name, value)
    else:
        persistent = name not in source._non_persistent_buffers_set
        target.register_buffer(name, value, persistent=persistent)
