"""MemVir: samples and proxies of past steps as virtual classes."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.losses.synthesis import LossFunction, LossInputs, Synthesis, register


@register(
    "memvir",
    paper="Learning with Memory-based Virtual Classes for Deep Metric Learning",
    year=2021,
    needs="proxies",
    amount="steps",
)
class MemVir(Synthesis):
    """Add past batches with past proxies as virtual classes: C more for each remembered step.

    The batches of ``steps`` past steps are added, with ``gap`` steps between them, each with the proxies of
    its step. A class of a past step is a different class from the same class now. Remembered tensors get no
    gradient. ``steps * (gap + 1)`` batches are kept, with all proxies.

    The paper starts after some epochs of warm-up, here counted in steps. Its README uses 45 steps with a gap
    of 10 on Cars196.

    Example:
        >>> batch = LossInputs(torch.eye(2), torch.tensor([0, 1]), torch.eye(2))
        >>> memory = MemVir(steps=1, gap=0)
        >>> [memory(batch, lambda made: made.labels, generator=torch.Generator()).tolist() for _ in range(2)]
        [[0, 1], [0, 1, 2, 3]]
    """

    steps: Annotated[int, Field(ge=1, le=10_000)] = 45
    """Number of past steps to use (N in the paper)."""
    gap: Annotated[int, Field(ge=0, le=10_000)] = 10
    """Number of steps skipped between two of them (M in the paper)."""
    start: Annotated[int, Field(ge=0)] = 0
    """First step to remember."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._seen = 0
        self._past: list[tuple[Tensor, Tensor, Tensor]] = []  # latest first

    def forward(self, batch: LossInputs, loss_fn: LossFunction, *, generator: torch.Generator) -> Tensor:
        """Return the loss of the batch and the remembered batches, over all their proxies."""
        assert batch.proxies is not None
        parts = [(batch.embeddings, batch.labels, batch.proxies), *self._past[self.gap :: self.gap + 1]]
        classes = len(batch.proxies)
        made = LossInputs(
            torch.cat([embeddings.to(batch.embeddings) for embeddings, _, _ in parts]),
            torch.cat(
                [labels.to(batch.labels) + number * classes for number, (_, labels, _) in enumerate(parts)]
            ),
            torch.cat([proxies.to(batch.proxies) for _, _, proxies in parts]),
        )
        value = loss_fn(made)
        if self._seen >= self.start:
            now = batch.embeddings.detach(), batch.labels, batch.proxies.detach().clone()
            self._past = [now, *self._past][: self.steps * (self.gap + 1)]
        self._seen += 1
        return value

    def get_extra_state(self) -> dict[str, object]:
        """Return the memory, for the state dict."""
        return {"seen": self._seen, "past": [list(step) for step in self._past]}

    def set_extra_state(self, state: object) -> None:
        """Restore the memory from :meth:`get_extra_state`."""
        if not isinstance(state, dict):
            raise UsageError("memvir: this is not the state of a memory; resume with the same method")
        self._seen = int(state["seen"])
        self._past = [(embeddings, labels, proxies) for embeddings, labels, proxies in state["past"]]
