"""Cross-batch memory: embeddings of the last batches as additional samples."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from levelfield.core.errors import UsageError


class CrossBatchMemory:
    """Ring buffer of past embeddings and labels ("Cross-Batch Memory for Embedding Learning", 2020).

    Embeddings drift slowly, so those of the last batches are still useful as positives and negatives. Pass
    the batch and the memory to a pair loss, with the pairs whose anchor is in the batch. Gradients flow into
    the batch only::

        joined, joined_labels = memory.join(embeddings, labels)
        pairs = miners.pairs_of_anchors(joined_labels, len(labels))
        value = loss(joined, joined_labels, pairs)
        memory.push(embeddings, labels)

    The memory is deterministic, and :meth:`state_dict` restores it exactly. With an empty memory the loss
    equals the loss of the batch. Start the memory when the embeddings have settled; the paper waits 1,000
    iterations.

    Args:
        capacity: Number of past samples to keep.
        size: Embedding size, D.

    Example:
        >>> memory = CrossBatchMemory(3, 1)
        >>> memory.push(torch.tensor([[1.0], [2.0]]), torch.tensor([0, 1]))
        >>> memory.push(torch.tensor([[3.0], [4.0]]), torch.tensor([2, 3]))
        >>> memory.get()[1].tolist()
        [1, 2, 3]
    """

    def __init__(self, capacity: int, size: int) -> None:
        if capacity < 1:
            raise UsageError(f"cross-batch memory: capacity must be at least 1, got {capacity}")
        self._embeddings = torch.zeros(capacity, size)
        self._labels = torch.zeros(capacity, dtype=torch.int64)
        self._pushed = 0

    def __len__(self) -> int:
        return min(self._pushed, len(self._labels))

    @torch.no_grad()
    def push(self, embeddings: Tensor, labels: Tensor) -> None:
        """Add a batch (B x D and B); the oldest samples are dropped."""
        capacity, size = self._embeddings.shape
        if embeddings.shape != (len(labels), size):
            raise UsageError(
                f"cross-batch memory: {len(labels)} labels need embeddings of shape {len(labels)} x {size}, "
                f"got {tuple(embeddings.shape)}; check the embedding size"
            )
        self._embeddings = self._embeddings.to(embeddings.device, embeddings.dtype)
        self._labels = self._labels.to(labels.device)
        kept = min(len(labels), capacity)
        end = self._pushed + len(labels)
        places = torch.arange(end - kept, end, device=labels.device) % capacity
        self._embeddings[places] = embeddings[-kept:].detach()
        self._labels[places] = labels[-kept:]
        self._pushed = end

    def get(self) -> tuple[Tensor, Tensor]:
        """Return the stored embeddings (M x D, without gradients) and labels (M), oldest first."""
        places = torch.arange(self._pushed - len(self), self._pushed, device=self._labels.device)
        places %= len(self._labels)
        return self._embeddings[places], self._labels[places]

    def join(self, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the batch (B x D and B) followed by the stored samples: (B + M) x D and B + M."""
        past, past_labels = self.get()
        return torch.cat([embeddings, past.to(embeddings)]), torch.cat([labels, past_labels.to(labels)])

    def state_dict(self) -> dict[str, Tensor]:
        """Return the content of the memory, for a resumed run."""
        return {
            "embeddings": self._embeddings,
            "labels": self._labels,
            "pushed": torch.tensor(self._pushed),
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the content that :meth:`state_dict` returned."""
        if state["embeddings"].shape != self._embeddings.shape:
            raise UsageError(
                f"cross-batch memory of shape {tuple(self._embeddings.shape)} cannot load a state of shape "
                f"{tuple(state['embeddings'].shape)}; resume with the same capacity and embedding size"
            )
        self._embeddings = state["embeddings"].clone()
        self._labels = state["labels"].clone()
        self._pushed = int(state["pushed"])
