"""Memory bank: the latest embedding of every training sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.errors import UsageError
from levelfield.data import Rows


class MemoryBank:
    """Latest known embedding of each training sample, updated with every batch.

    Row i of the bank is training sample i: update the rows that the batch sampler yields. Samplers that need
    a bank first yield samples without an embedding, so no extra pass over the data is needed.

    Args:
        samples: Size of the training set, n.
        size: Embedding size, D.
        momentum: Weight of the old embedding in an update; 0 overwrites it. The length of an embedding is
            averaged with the same weight, so that unit vectors stay unit vectors.

    Example:
        >>> bank = MemoryBank(3, 2)
        >>> bank.update([2, 0], torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        >>> bank.known.tolist(), bank.embeddings[2].tolist()
        ([True, False, True], [1.0, 0.0])
    """

    def __init__(self, samples: int, size: int, *, momentum: float = 0.0) -> None:
        if not 0 <= momentum < 1:
            raise UsageError(f"memory bank: momentum must be at least 0 and below 1, got {momentum}")
        self.momentum = momentum
        self.embeddings = torch.zeros(samples, size)
        self.known = torch.zeros(samples, dtype=torch.bool)
        self.frozen: Tensor | None = None

    def __len__(self) -> int:
        return len(self.known)

    @torch.no_grad()
    def update(self, rows: Sequence[int] | Rows, embeddings: Tensor) -> None:
        """Store the ``embeddings`` (B x D) of the training samples ``rows`` (B).

        If a row occurs twice in a batch, its last embedding is stored.
        """
        if embeddings.shape != (len(rows), self.embeddings.shape[1]):
            raise UsageError(
                f"memory bank: {len(rows)} rows need embeddings of shape {len(rows)} x "
                f"{self.embeddings.shape[1]}, got {tuple(embeddings.shape)}; check the embedding size"
            )
        last = {int(row): place for place, row in enumerate(rows)}
        target = torch.tensor(list(last), dtype=torch.int64)
        new = embeddings[list(last.values())].to(self.embeddings)
        if self.momentum:
            kept = torch.where(self.known[target], self.momentum, 0.0)[:, None]
            new = _blend(self.embeddings[target], new, kept)
        self.embeddings[target] = new
        self.known[target] = True

    def freeze(self) -> None:
        """Keep a copy of the present embeddings as ``frozen``, which updates do not change."""
        self.frozen = self.embeddings.clone()

    def state_dict(self) -> dict[str, Tensor]:
        """Return the content of the bank, for a resumed run."""
        state = {"embeddings": self.embeddings, "known": self.known}
        return state if self.frozen is None else state | {"frozen": self.frozen}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the content that :meth:`state_dict` returned."""
        self.embeddings.copy_(state["embeddings"])
        self.known.copy_(state["known"])
        self.frozen = state["frozen"].clone() if "frozen" in state else None


def _blend(old: Tensor, new: Tensor, kept: Tensor) -> Tensor:
    blend = kept * old + (1 - kept) * new
    length = kept * _lengths(old) + (1 - kept) * _lengths(new)
    return F.normalize(blend) * length


def _lengths(vectors: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return lengths
