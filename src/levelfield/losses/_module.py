"""The module around a pure loss function."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from torch import Tensor, nn

from levelfield.errors import UsageError
from levelfield.miners import Tuples


class EmbeddingLoss(nn.Module):
    """A loss function with its options bound; a subclass names them in its constructor.

    Attributes:
        takes_tuples: Whether a miner can choose what the loss works on; if not, ``function`` takes
            embeddings and labels only.
    """

    takes_tuples: ClassVar[bool] = True

    def __init__(self, function: partial[Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None) -> Tensor:
        """The loss of ``embeddings`` (B x D) with ``labels`` (B): a scalar, float32 or better."""
        if self.takes_tuples:
            return self.function(embeddings, labels, tuples)
        if tuples is not None:
            raise UsageError(
                f"{type(self).__name__} ranks the whole batch and takes no miner; drop the miner"
            )
        return self.function(embeddings, labels)

    def extra_repr(self) -> str:
        """The options, for print."""
        return ", ".join(f"{name}={value!r}" for name, value in self.function.keywords.items())
