"""Where a trunk can be cut in two, and the two parts.

A cut is named by a module: what runs before that module is the lower part, the module and what runs after it
the upper part. The network is traced (torch.fx) to find out what crosses the cut. A cut is possible where
that is exactly one tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils.flop_counter import FlopCounterMode

from levelfield.errors import UsageError, did_you_mean
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
            with _mode(network, training=training):
                traced = _Tracer(around).traced(network)
        except Exception as error:  # forward() on placeholders can raise anything
            reason = f"its forward pass cannot be traced ({str(error).splitlines()[0]})"
            raise UsageError(_refusal(trunk, name, reason)) from error
        obstacle = _obstacle(traced, name, network)
        if obstacle is not None:
            raise UsageError(_refusal(trunk, name, obstacle))
        graphs[training] = _divide(traced.graph, traced.entries[name])
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


def list_cuts(trunk: Trunk, *, image_size: int, channels: int = 3) -> list[Cut]:
    """The cuts between the stages and blocks of ``trunk``, from the input to the output.

    Of several cuts that leave the same parameters to train, only the last is listed: it costs least.

    Example:
        >>> from levelfield import models
        >>> trunk = models.create_trunk("conv4", in_channels=1, width=8)
        >>> [cut.name for cut in list_cuts(trunk, image_size=32, channels=1)]
        ['0', '1', '2', '3']
    """
    network = trunk.network
    traced = _trace_blocks(network)
    if traced is None:
        return []
    image = trunk.prepare(torch.zeros(1, channels, image_size, image_size))
    cost = _Cost(network, traced.graph)
    with _mode(network, training=False):
        cost.run(image)
    total = sum(parameter.numel() for parameter in network.parameters())
    cuts: dict[int, Cut] = {}
    for node, name in _possible_cuts(traced, network).items():
        upper = _upper_nodes(traced.graph, node)
        trained = sum(parameter.numel() for parameter in _parameters(network, upper))
        cuts[trained] = Cut(
            name=name,
            shape=cost.shapes[node],
            parameters=trained / max(total, 1),
            multiply_adds=sum(cost.flops[n] for n in upper) / max(sum(cost.flops.values()), 1),
        )
    return [cut for trained, cut in cuts.items() if trained]


@dataclass
class _Traced:
    """A traced network.

    Attributes:
        graph: Its operations.
        entries: For each module that was called once, with one tensor: the operation that made the tensor.
        refused: Why other modules are no cuts.
    """

    graph: fx.Graph
    entries: dict[str, fx.Node]
    refused: dict[str, str]


class _OneInput(nn.Module):
    """Hides the optional arguments of a network's forward pass, so that tracing takes their defaults."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, value: Tensor) -> Any:
        return self.network(value)


_ROOT = "network"
_PREFIX = "network."  # what _OneInput puts before the names of modules and tensors


class _Tracer(fx.Tracer):
    """Goes into the modules that ``enters`` names and takes all others as one operation each."""

    def __init__(self, enters: Container[str]) -> None:
        super().__init__()
        self._enters = enters
        self._inputs: dict[str, list[fx.Node | None]] = {}
        self.inside: list[str] = []

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        name = module_qualified_name
        return name != _ROOT and name.removeprefix(_PREFIX) not in self._enters

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        name = self.path_of_module(m).removeprefix(_PREFIX)
        if name == _ROOT:
            return super().call_module(m, forward, args, kwargs)
        values = [value for value in (*args, *kwargs.values()) if isinstance(value, fx.Proxy)]
        one_tensor = len(values) == 1 and bool(args) and args[0] is values[0]
        self._inputs.setdefault(name, []).append(values[0].node if one_tensor else None)
        self.inside.append(name)
        result = super().call_module(m, forward, args, kwargs)
        self.inside.pop()
        return result

    def traced(self, network: nn.Module) -> _Traced:
        """Trace ``network`` as it is now, in training or evaluation mode."""
        graph = self.trace(_OneInput(network))
        for node in reversed(graph.nodes):
            if node.target is torch._assert:  # would tie the upper part to shapes in the lower one
                graph.erase_node(node)
            elif node.op in ("call_module", "get_attr"):
                node.target = str(node.target).removeprefix(_PREFIX)
        graph.owning_module = network  # type: ignore[assignment]  # any module that has the layers will do
        graph.eliminate_dead_code()
        entries, refused = {}, {}
        alive = set(graph.nodes)
        for name, inputs in self._inputs.items():
            if len(inputs) > 1:
                refused[name] = f"{name} runs {len(inputs)} times"
            elif inputs[0] is None or inputs[0] not in alive:
                refused[name] = f"{name} does not take one tensor"
            else:
                entries[name] = inputs[0]
        return _Traced(graph, entries, refused)


def _trace_blocks(network: nn.Module) -> _Traced | None:
    """Trace into stages down to their blocks; None if not even the outermost level can be traced."""
    enters = {name for name, module in network.named_modules() if _holds_blocks(module)}
    while True:
        tracer = _Tracer(enters)
        try:
            with _mode(network, training=False):
                return tracer.traced(network)
        except Exception:  # forward() on placeholders can raise anything; such a module stays one operation
            culprit = next((name for name in reversed(tracer.inside) if name in enters), None)
            if culprit is None:
                return None
            enters.discard(culprit)


def _holds_blocks(module: nn.Module) -> bool:
    """Whether a module is a row of blocks, or a stage that has one; single layers are no blocks."""
    return _is_row(module) or any(_is_row(child) for child in module.children())


def _is_row(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential | nn.ModuleList) and any(
        True for child in module.children() for _ in child.children()
    )


def _possible_cuts(traced: _Traced, network: nn.Module) -> dict[fx.Node, str]:
    """What crosses each possible cut, and the name of the outermost module that takes it."""
    cuts: dict[fx.Node, str] = {}
    for name, node in traced.entries.items():
        if node not in cuts and _obstacle(traced, name, network) is None:
            cuts[node] = name
    return cuts


def _obstacle(traced: _Traced, name: str, network: nn.Module) -> str | None:
    """Why the network cannot be cut before module ``name``; None if it can."""
    if name not in traced.entries:
        return traced.refused.get(name, f"{name} takes no part in the forward pass")
    node = traced.entries[name]
    lower, upper = _lower_nodes(node), _upper_nodes(traced.graph, node)
    crossing = {source for n in upper for source in n.all_input_nodes if source in lower}
    others = [source for source in crossing if source is not node and _depends_on_input(source)]
    if others:
        source = others[0].target if others[0].op == "call_module" else others[0].name
        return f"what {source} gives is used before and after it"
    if {id(p) for p in _parameters(network, lower)} & {id(p) for p in _parameters(network, upper)}:
        return "parameters are used before and after it"
    return None


def _lower_nodes(node: fx.Node) -> set[fx.Node]:
    """``node`` and all that it depends on."""
    lower, waiting = {node}, [node]
    while waiting:
        new = set(waiting.pop().all_input_nodes) - lower
        lower |= new
        waiting += new
    return lower


def _upper_nodes(graph: fx.Graph, node: fx.Node) -> list[fx.Node]:
    """All operations that ``node`` does not depend on, in order."""
    lower = _lower_nodes(node)
    return [n for n in graph.nodes if n not in lower]


def _depends_on_input(node: fx.Node) -> bool:
    return any(n.op == "placeholder" for n in _lower_nodes(node))


def _parameters(network: nn.Module, nodes: Iterable[fx.Node]) -> list[nn.Parameter]:
    """The parameters that operations use, each once."""
    found: dict[int, nn.Parameter] = {}
    for node in nodes:
        if node.op == "call_module":
            found |= {id(p): p for p in network.get_submodule(str(node.target)).parameters()}
        elif node.op == "get_attr" and isinstance(
            value := _attribute(network, str(node.target)), nn.Parameter
        ):
            found[id(value)] = value
    return list(found.values())


def _divide(graph: fx.Graph, node: fx.Node) -> tuple[fx.Graph, fx.Graph]:
    """The graph up to ``node``, and the graph from there on."""
    lower, upper = fx.Graph(), fx.Graph()
    below = _lower_nodes(node)
    copies: dict[fx.Node, fx.Node] = {}
    for n in graph.nodes:
        if n in below:
            copies[n] = lower.node_copy(n, copies.__getitem__)
    lower.output(copies[node])

    copies = {node: upper.placeholder("activations")}

    def copied(n: fx.Node) -> fx.Node:
        if n not in copies:  # a tensor of the network itself that the lower part uses too
            copies[n] = upper.node_copy(n, copied)
        return copies[n]

    for n in graph.nodes:
        if n not in below:
            copied(n)
    return lower, upper


class _Cost(fx.Interpreter):
    """Runs a graph; counts floating-point operations and notes the shapes of tensors for one image."""

    def __init__(self, network: nn.Module, graph: fx.Graph) -> None:
        super().__init__(network, graph=graph)
        self.flops: dict[fx.Node, int] = {}
        self.shapes: dict[fx.Node, tuple[int, ...]] = {}

    def run_node(self, n: fx.Node) -> Any:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            result = super().run_node(n)
        self.flops[n] = counter.get_total_flops()
        if isinstance(result, Tensor):
            self.shapes[n] = tuple(result.shape[1:])
        return result


@contextmanager
def _mode(network: nn.Module, *, training: bool) -> Iterator[None]:
    """Training or evaluation mode for a while; every layer then gets back the mode that it had."""
    before = {module: module.training for module in network.modules()}
    try:
        network.train(training)
        yield
    finally:
        for module, mode in before.items():
            module.training = mode


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


def _attribute(network: nn.Module, path: str) -> Any:
    owner, _, name = path.rpartition(".")
    return getattr(network.get_submodule(owner), name)


def _no_such_cut(trunk: Trunk, name: str) -> str:
    traced = _trace_blocks(trunk.network)
    names = list(_possible_cuts(traced, trunk.network).values()) if traced else []
    known = f"; `levelfield ls cuts {trunk.name}` lists them" if names else ""
    return f'trunk {trunk.name} has no module "{name}" to be cut at{did_you_mean(name, names)}{known}'


def _refusal(trunk: Trunk, name: str, reason: str) -> str:
    listed = f"`levelfield ls cuts {trunk.name}` lists where it can be"
    return f"trunk {trunk.name} cannot be cut at {name}: {reason}; {listed}"
