"""Where a trunk can be cut in two, and the two parts.

A cut is named by a module: what runs before that module is the lower part, the module and what runs after it
the upper part. The network is traced (torch.fx) to find out what crosses the cut. A cut is possible where
that is exactly one tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from levelfield.errors import UsageError, did_you_mean
from levelfield.models._graphs import (
    Cost,
    Tracer,
    divide,
    mode_of,
    obstacle_to,
    parameters_of,
    possible_cuts,
    trace_blocks,
    upper_nodes,
)
from levelfield.models._trunk import InputRecipe, Trunk

HEAD = "head"  # the cut after the last layer: only the head is trained
BYTES_PER_VALUE = 2  # activations are kept as float16


@dataclass(frozen=True)
class Cut:
    """A place where a trunk can be cut.

    Attributes:
        name: The first module of the upper part.
        shape: What crosses the cut for one image.
        parameters: The share of the trunk's parameters in the upper part.
        multiply_adds: The share of its multiply-adds there.
    """

    name: str
    shape: tuple[int, ...]
    parameters: float
    multiply_adds: float

    @property
    def bytes(self) -> int:
        """What one image and view takes on the disk, in float16."""
        return BYTES_PER_VALUE * torch.Size(self.shape).numel()


class Part(nn.Module):
    """A part of a traced network. Its tensors are those of the network, under the same names."""

    def __init__(self, network: nn.Module, *, training: fx.Graph, evaluation: fx.Graph) -> None:
        super().__init__()
        for graph in (training, evaluation):
            for node in graph.nodes:
                if node.op in ("call_module", "get_attr"):
                    _share(network, self, str(node.target))
        # fx writes each graph as a function of the module that holds the layers; any holder will do.
        self._run = {
            mode: type(fx.GraphModule(self, graph)).forward
            for mode, graph in ((True, training), (False, evaluation))
        }
        self.training = network.training

    def forward(self, value: Tensor) -> Tensor:
        """The output of the part for its one input."""
        output: Tensor = self._run[self.training](self, value)
        return output


class LowerPart(nn.Module):
    """Images to what crosses the cut.

    Attributes:
        trunk: The preparation of images, and the identity, of the trunk that was cut; it has no layers.
        cut: The name of the cut.
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
        """Activations (B x ...) of images (B x C x H x W)."""
        activations: Tensor = self.part(self.trunk.prepare(images))
        return activations


def split(trunk: Trunk, name: str) -> tuple[LowerPart, Trunk]:
    """The part of ``trunk`` before module ``name``, and the rest as a trunk that takes activations.

    Both share their tensors with ``trunk``; the rest's keep their names, so its state dict is a part of that
    of the whole trunk.

    Example:
        >>> from levelfield import models
        >>> trunk = models.create_trunk("conv4", in_channels=1, width=8).eval()
        >>> lower, upper = split(trunk, "2")
        >>> images = torch.rand(2, 1, 32, 32)
        >>> lower(images).shape, torch.equal(upper(lower(images)), trunk(images))
        (torch.Size([2, 8, 8, 8]), True)
    """
    network = trunk.network
    if name not in dict(network.named_modules()) or not name:
        raise UsageError(_no_such_cut(trunk, name))
    around = {name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)}
    graphs = {}
    for training in (True, False):
        try:
            with mode_of(network, training=training):
                traced = Tracer(around).traced(network)
        except Exception as error:  # forward() on placeholders can raise anything
            first = (str(error).splitlines() or [type(error).__name__])[0]
            reason = f"its forward pass cannot be traced ({first})"
            raise UsageError(_refusal(trunk, name, reason)) from error
        obstacle = obstacle_to(traced, name, network)
        if obstacle is not None:
            raise UsageError(_refusal(trunk, name, obstacle))
        graphs[training] = divide(traced.graph, traced.entries[name])
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
    """No parameter asks for a gradient: torch's counter trips over tokens that do."""
    learning = [parameter for parameter in network.parameters() if parameter.requires_grad]
    try:
        for parameter in learning:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


def list_cuts(trunk: Trunk, *, image_size: int, channels: int = 3) -> list[Cut]:
    """The cuts between the stages and blocks of ``trunk``, from the input to the output.

    Of several cuts that leave the same parameters to train, only the last is listed: it costs least.

    Raises:
        UsageError: The trunk does not take such images.

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
    cost = Cost(network, traced.graph)
    try:
        with mode_of(network, training=False), _without_gradients(network):
            cost.run(image)
    except Exception as error:  # forward() can raise anything
        wanted = f"images of {channels} x {image_size} x {image_size}"
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(
            f"trunk {trunk.name} does not take {wanted} ({first}); give --size, if it takes others"
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


def _no_such_cut(trunk: Trunk, name: str) -> str:
    traced = trace_blocks(trunk.network)
    names = list(possible_cuts(traced, trunk.network).values()) if traced else []
    known = f"; `levelfield ls cuts {trunk.name}` lists them" if names else ""
    return f'trunk {trunk.name} has no module "{name}" to be cut at{did_you_mean(name, names)}{known}'


def _refusal(trunk: Trunk, name: str, reason: str) -> str:
    listed = f"`levelfield ls cuts {trunk.name}` lists where it can be"
    return f"trunk {trunk.name} cannot be cut at {name}: {reason}; {listed}"


def _share(source: nn.Module, target: nn.Module, path: str) -> None:
    """Give ``target`` the module or tensor that ``source`` has under ``path``, under the same path."""
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
