"""A regulariser as a run uses it: weighed, handed what it asks for, and trained if it learns."""

from __future__ import annotations

from torch import Tensor, nn

from levelfield.losses import regularisers
from levelfield.methods import RegulariserChoice


class Term(nn.Module):
    """``choice.weight`` times a regulariser.

    Attributes:
        name: The regulariser's registered name.
        lr: The learning rate of its parameters; None if it has none.
    """

    def __init__(
        self, choice: RegulariserChoice, *, num_classes: int, embedding_size: int, seed: int
    ) -> None:
        super().__init__()
        entry = regularisers.registry[choice.name]
        given = {"num_classes": num_classes, "embedding_size": embedding_size, "seed": seed}
        given = {name: value for name, value in given.items() if name in entry.parameters}
        self.name, self.lr = choice.name, choice.lr
        self._weight, self._sees = choice.weight, entry.card.sees
        self._regulariser = regularisers.create(choice.name, **choice.options, **given)

    def forward(self, embeddings: Tensor, labels: Tensor, proxies: Tensor | None) -> Tensor:
        """The weighed term, a scalar, of embeddings (B x D), labels (B) and a loss's proxies (C x D)."""
        known = {"labels": labels, "proxies": proxies}
        return self._weight * self._regulariser(embeddings, **{name: known[name] for name in self._sees})
