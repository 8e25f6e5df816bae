"""The memory bank: the latest embedding of every training sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.data import Rows
from levelfield.errors import UsageError


class MemoryBank:
    """The latest known embedding of each training sample, kept up to date by the stream of batches.

    Row i of the bank is training sample i: the numbers that a batch sampler yields are the ones to update.
    Embedded samplers choose batches by it, and deal samples that the bank does not know yet first; so no
    extra pass over the data is needed.

    Args:
        samples: n, the size of the training set.
        size: D, of the embeddings.
        momentum: How much of the old entry an update keeps. The blend is given the length that the two have
            (blended too), so that unit vectors stay unit vectors. 0 just overwrites.

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

    def __len__(self) -> int:
        return len(self.known)

    @torch.no_grad()
    def update(self, rows: Sequence[int] | Rows, embeddings: Tensor) -> None:
        """Take in a batch: ``embeddings`` (B x D) of the training samples ``rows`` (B).

        Of a row that comes twice in a batch, the last embedding counts.
        """
        if embeddings.shape != (len(rows), self.embeddings.shape[1]):
            raise UsageError(
                f"memory bank: {len(rows)} rows need embeddings of shape {len(rows)} x "
                f"{self.embeddings.shape[1]}, got {tuple(embeddings.shape)}"
            )
        last = {int(row): place for place, row in enumerate(rows)}
        target = torch.tensor(list(last), dtype=torch.int64)
        new = embeddings[list(last.values())].to(self.embeddings)
        if self.momentum:
            kept = torch.where(self.known[target], self.momentum, 0.0)[:, None]
            new = _blend(self.embeddings[target], new, kept)
        self.embeddings[target] = new
        self.known[target] = True

    def state_dict(self) -> dict[str, Tensor]:
        """What a resumed run needs."""
        return {"embeddings": self.embeddings, "known": self.known}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what :meth:`state_dict` gave."""
        self.embeddings.copy_(state["embeddings"])
        self.known.copy_(state["known"])


def _blend(old: Tensor, new: Tensor, kept: Tensor) -> Tensor:
    blend = kept * old + (1 - kept) * new
    length = kept * _lengths(old) + (1 - kept) * _lengths(new)
    return F.normalize(blend) * length


def _lengths(vectors: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return lengths
