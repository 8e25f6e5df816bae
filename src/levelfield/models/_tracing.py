"""Traced networks: graphs of operations, and the tensors that would cross a cut before a module."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn


@dataclass
class TracedNetwork:
    """Network as a graph of operations.

    Attributes:
        graph: Operations of the network.
        entries: For each module that was called once, with one tensor: the operation that computes the
            tensor.
        refused: For all other modules: the reason why they cannot be cuts.
    """

    graph: fx.Graph
    entries: dict[str, fx.Node]
    refused: dict[str, str]


class _OneInput(nn.Module):
    """Wrapper that hides optional arguments of ``forward``, so that tracing uses their defaults."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, value: Tensor) -> Any:
        return self.network(value)


_ROOT = "network"
_PREFIX = "network."  # _OneInput adds it to the names of modules and tensors


class BlockTracer(fx.Tracer):
    """Tracer that enters the modules named in ``enters``; every other module is one operation."""

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

    def trace_network(self, network: nn.Module) -> TracedNetwork:
        """Trace ``network`` in its current mode, training or evaluation."""
        graph = self.trace(_OneInput(network))
        for node in reversed(graph.nodes):
            if (
                node.target is torch._assert
            ):  # it would make the upper part depend on shapes in the lower part
                graph.erase_node(node)
            elif node.op in ("call_module", "get_attr"):
                node.target = str(node.target).removeprefix(_PREFIX)
        graph.owning_module = network  # type: ignore[assignment]  # any module with the layers works
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
        return TracedNetwork(graph, entries, refused)


def trace_blocks(network: nn.Module) -> TracedNetwork | None:
    """Trace stages down to their blocks; return None if the outermost level cannot be traced."""
    enters = {name for name, module in network.named_modules() if _holds_blocks(module)}
    while True:
        tracer = BlockTracer(enters)
        try:
            with temporary_mode(network, training=False):
                return tracer.trace_network(network)
        except Exception:  # forward() on proxies can raise anything; then keep the module as one operation
            failed = next((name for name in reversed(tracer.inside) if name in enters), None)
            if failed is None:
                return None
            enters.discard(failed)


def _holds_blocks(module: nn.Module) -> bool:
    """Return whether a module is a sequence of blocks or contains one; single layers are not blocks."""
    return _is_block_sequence(module) or any(_is_block_sequence(child) for child in module.children())


def _is_block_sequence(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential | nn.ModuleList) and any(
        True for child in module.children() for _ in child.children()
    )


def possible_cuts(traced: TracedNetwork, network: nn.Module) -> dict[fx.Node, str]:
    """Return the node that crosses each possible cut, with the name of the outermost module that takes it."""
    cuts: dict[fx.Node, str] = {}
    for name, node in traced.entries.items():
        if node not in cuts and cut_obstacle(traced, name, network) is None:
            cuts[node] = name
    return cuts


def cut_obstacle(traced: TracedNetwork, name: str, network: nn.Module) -> str | None:
    """Return the reason why the network cannot be cut before module ``name``; None if it can."""
    if name not in traced.entries:
        return traced.refused.get(name, f"{name} is not used in the forward pass")
    node = traced.entries[name]
    lower, upper = lower_nodes(node), upper_nodes(traced.graph, node)
    crossing = {source for n in upper for source in n.all_input_nodes if source in lower}
    others = [source for source in crossing if source is not node and _depends_on_input(source)]
    if others:
        source = others[0].target if others[0].op == "call_module" else others[0].name
        return f"the output of {source} is used both before and after it"
    if {id(p) for p in parameters_of(network, lower)} & {id(p) for p in parameters_of(network, upper)}:
        return "parameters are used both before and after it"
    return None


def lower_nodes(node: fx.Node) -> set[fx.Node]:
    """Return ``node`` and all nodes that it depends on."""
    lower, waiting = {node}, [node]
    while waiting:
        new = set(waiting.pop().all_input_nodes) - lower
        lower |= new
        waiting += new
    return lower


def upper_nodes(graph: fx.Graph, node: fx.Node) -> list[fx.Node]:
    """Return the nodes that ``node`` does not depend on, in order."""
    lower = lower_nodes(node)
    return [n for n in graph.nodes if n not in lower]


def _depends_on_input(node: fx.Node) -> bool:
    return any(n.op == "placeholder" for n in lower_nodes(node))


def parameters_of(network: nn.Module, nodes: Iterable[fx.Node]) -> list[nn.Parameter]:
    """Return the parameters that the nodes use, each once."""
    found: dict[int, nn.Parameter] = {}
    for node in nodes:
        if node.op == "call_module":
            found |= {id(p): p for p in network.get_submodule(str(node.target)).parameters()}
        elif node.op == "get_attr" and isinstance(
            value := _attribute(network, str(node.target)), nn.Parameter
        ):
            found[id(value)] = value
    return list(found.values())


def split_graph(graph: fx.Graph, node: fx.Node) -> tuple[fx.Graph, fx.Graph]:
    """Return the graph up to ``node`` and the graph after it."""
    lower, upper = fx.Graph(), fx.Graph()
    below = lower_nodes(node)
    copies: dict[fx.Node, fx.Node] = {}
    for n in graph.nodes:
        if n in below:
            copies[n] = lower.node_copy(n, copies.__getitem__)
    lower.output(copies[node])

    copies = {node: upper.placeholder("activations")}

    def copied(n: fx.Node) -> fx.Node:
        if n not in copies:  # a tensor of the network that the lower part uses too
            copies[n] = upper.node_copy(n, copied)
        return copies[n]

    for n in graph.nodes:
        if n not in below:
            copied(n)
    return lower, upper


class CostInterpreter(fx.Interpreter):
    """Interpreter that counts the FLOPs and stores the output shape of each node, for one image."""

    def __init__(self, network: nn.Module, graph: fx.Graph) -> None:
        super().__init__(network, graph=graph)
        self.flops: dict[fx.Node, int] = {}
        self.shapes: dict[fx.Node, tuple[int, ...]] = {}

    def run_node(self, n: fx.Node) -> Any:
        from torch.utils.flop_counter import FlopCounterMode  # its import is slow: it imports triton

        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            result = super().run_node(n)
        self.flops[n] = counter.get_total_flops()
        if isinstance(result, Tensor):
            self.shapes[n] = tuple(result.shape[1:])
        return result


@contextmanager
def temporary_mode(network: nn.Module, *, training: bool) -> Iterator[None]:
    """Set training or evaluation mode for a while, then restore the mode of every layer."""
    before = {module: module.training for module in network.modules()}
    try:
        network.train(training)
        yield
    finally:
        for module, mode in before.items():
            module.training = mode


def _attribute(network: nn.Module, path: str) -> Any:
    owner, _, name = path.rpartition(".")
    return getattr(network.get_submodule(owner), name)
