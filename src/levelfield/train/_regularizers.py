"""Weighted regularizer of a run, with its inputs and its learning rate."""

from __future__ import annotations

from torch import Tensor, nn

from levelfield.losses import regularizers
from levelfield.methods import RegularizerSetting


class WeightedRegularizer(nn.Module):
    """``choice.weight`` times a regularizer.

    Attributes:
        name: Registered name of the regularizer.
        lr: Learning rate of its parameters; None if it has no parameters.
    """

    def __init__(
        self, choice: RegularizerSetting, *, num_classes: int, embedding_size: int, seed: int
    ) -> None:
        super().__init__()
        entry = regularizers.registry[choice.name]
        given = {"num_classes": num_classes, "embedding_size": embedding_size, "seed": seed}
        given = {name: value for name, value in given.items() if name in entry.parameters}
        self.name, self.lr = choice.name, choice.lr
        self._weight, self._sees = choice.weight, entry.card.sees
        self._regularizer = regularizers.create(choice.name, **choice.options, **given)

    def forward(self, embeddings: Tensor, labels: Tensor, proxies: Tensor | None) -> Tensor:
        """Return the weighted term (scalar) of embeddings (B x D), labels (B) and proxies (C x D)."""
        known = {"labels": labels, "proxies": proxies}
        return self._weight * self._regularizer(embeddings, **{name: known[name] for name in self._sees})
