"""Large batches in little memory: the network processes chunks, the loss the whole batch.

Gradients are exact, as in "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup" (Gao et
al. 2021). A first pass computes the embeddings without a graph, and the loss gives their gradients. A second
pass over the chunks propagates them to the network. It draws the same random numbers as the first pass, so
dropout is the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

Forward = Callable[[Tensor], Tensor]


class ChunkedPass:
    """Embeddings of a batch, computed chunk by chunk.

    Attributes:
        embeddings: B x D, a leaf tensor that collects gradients, without the graph of the network.

    Example:
        >>> weight = torch.ones(3, 2, requires_grad=True)
        >>> chunks = ChunkedPass(lambda x: x @ weight, torch.ones(5, 3), size=2)
        >>> chunks.embeddings.sum().backward()
        >>> chunks.backward()
        >>> weight.grad.sum().item()
        30.0
    """

    def __init__(self, forward: Forward, inputs: Tensor, *, size: int) -> None:
        self._forward = forward
        self._chunks = torch.split(inputs, size)
        self._random_states: list[list[Tensor]] = []
        outputs = []
        with torch.no_grad():
            for chunk in self._chunks:
                self._random_states.append(_random_states(chunk.device))
                outputs.append(forward(chunk))
        self.embeddings = torch.cat(outputs).requires_grad_()

    def backward(self) -> None:
        """Propagate the gradients of ``embeddings`` to the network."""
        gradient = self.embeddings.grad
        assert gradient is not None, "call backward() of the loss first"
        start = 0
        for chunk, states in zip(self._chunks, self._random_states, strict=True):
            with _random_generators(chunk.device, states):
                output = self._forward(chunk)
            torch.autograd.backward(output, gradient[start : start + len(chunk)].to(output.dtype))
            start += len(chunk)


def _random_states(device: torch.device) -> list[Tensor]:
    states = [torch.get_rng_state()]
    match device.type:
        case "cuda":
            states.append(torch.cuda.get_rng_state(device))
        case "mps":
            states.append(torch.mps.get_rng_state())
    return states


@contextmanager
def _random_generators(device: torch.device, states: list[Tensor]) -> Iterator[None]:
    """Use random generators with these states in the block and restore their own states after it."""
    before = _random_states(device)
    try:
        _set_random_states(device, states)
        yield
    finally:
        _set_random_states(device, before)


def _set_random_states(device: torch.device, states: list[Tensor]) -> None:
    torch.set_rng_state(states[0])
    match device.type:
        case "cuda":
            torch.cuda.set_rng_state(states[1], device)
        case "mps":
            torch.mps.set_rng_state(states[1])
