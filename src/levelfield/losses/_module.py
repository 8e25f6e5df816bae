"""What all losses share: options written once, as fields, and a ``compute`` that holds the formula."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import dataclass_transform

from torch import Tensor, nn

from levelfield.errors import UsageError
from levelfield.geometry import Tuples, checked
from levelfield.miners.pml_bridge import from_pml


@dataclass_transform(kw_only_default=True, eq_default=False)
class Loss(nn.Module):
    """Base of the losses: a module whose options are annotated fields, as in a dataclass.

    Every subclass becomes a dataclass with keyword-only fields, so an option's name, type, default and
    meaning stand in one place, and the constructor, its signature and ``print`` follow from them. A subclass
    that has to check its options or to make parameters does so in ``__post_init__``.

    Example:
        >>> class Shrink(Loss):
        ...     weight: float = 1.0
        ...     def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        ...         return self.weight * embeddings.square().sum()
        >>> Shrink(weight=0.5)
        Shrink(weight=0.5)
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(eq=False, kw_only=True, repr=False)(cls)

    def __post_init__(self) -> None:
        super().__init__()

    def rates(self, loss_lr: float) -> list[tuple[list[nn.Parameter], float]]:
        """The parameters, and the learning rate of each: ``loss_lr`` unless a part has one of its own."""
        return [(list(self.parameters()), loss_lr)]

    def extra_repr(self) -> str:
        """The options, for print."""
        return ", ".join(f"{option.name}={getattr(self, option.name)!r}" for option in fields(self))  # type: ignore[arg-type]


class EmbeddingLoss(Loss):
    """Base of the losses that compare the samples of a batch with each other; each implements ``compute``."""

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: Tuples | tuple[Tensor, ...] | None = None
    ) -> Tensor:
        """The loss of a batch.

        Args:
            embeddings: B x D, as they come from the head.
            labels: B.
            tuples: A miner's choice; all pairs or triplets of the batch if None. Sums over hinges count a
                tuple as often as it is listed, sums inside a logarithm once. Plain index tensors, as the
                miners of pytorch-metric-learning give them, are taken too.

        Returns:
            A scalar, float32 or better.
        """
        vectors = checked(embeddings, labels)
        chosen = from_pml(tuples) if isinstance(tuples, tuple) else tuples
        return self.compute(vectors, labels, chosen) if len(labels) else vectors.sum()

    def compute(self, vectors: Tensor, labels: Tensor, tuples: Tuples | None) -> Tensor:
        """The formula, on vectors (B x D) that are checked and float32 or better."""
        raise NotImplementedError


class RankingLoss(Loss):
    """Base of the losses that rank the whole batch and so take no miner; each implements ``compute``."""

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None) -> Tensor:
        """The loss of ``embeddings`` (B x D) with ``labels`` (B): a scalar, float32 or better."""
        if tuples is not None:
            raise UsageError(
                f"{type(self).__name__} ranks the whole batch and takes no miner; drop the miner"
            )
        vectors = checked(embeddings, labels)
        return self.compute(vectors, labels) if len(labels) else vectors.sum()

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """The formula, on vectors (B x D) that are checked and float32 or better."""
        raise NotImplementedError
