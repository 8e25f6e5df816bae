"""Base classes of the losses: options are fields, and ``compute`` holds the formula."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import dataclass_transform

from torch import Tensor, nn

from levelfield.core.errors import UsageError
from levelfield.core.geometry import MinedTuples, check_embeddings
from levelfield.miners.pml_bridge import from_pml


@dataclass_transform(kw_only_default=True, eq_default=False)
class Loss(nn.Module):
    """Base class of the losses: a module whose options are annotated fields, as in a dataclass.

    Every subclass becomes a dataclass with keyword-only fields. So the name, type, default and meaning of an
    option are written once. Constructor, signature and ``print`` follow from them. A subclass that checks
    options or creates parameters does so in ``__post_init__``.

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

    def parameters_with_lr(self, loss_lr: float) -> list[tuple[list[nn.Parameter], float]]:
        """Return groups of parameters with their learning rate: ``loss_lr`` unless a group has its own."""
        return [(list(self.parameters()), loss_lr)]

    def extra_repr(self) -> str:
        """Return the options, for print."""
        options = fields(self)  # type: ignore[arg-type]  # a dataclass by its metaclass, which mypy cannot know
        return ", ".join(f"{option.name}={getattr(self, option.name)!r}" for option in options)


class EmbeddingLoss(Loss):
    """Base class of losses that compare the samples of a batch; subclasses implement ``compute``."""

    def forward(
        self, embeddings: Tensor, labels: Tensor, tuples: MinedTuples | tuple[Tensor, ...] | None = None
    ) -> Tensor:
        """Return the loss of a batch.

        Args:
            embeddings: B x D, the output of the head.
            labels: B.
            tuples: Pairs or triplets of a miner; None means all of the batch. Sums over hinges count a tuple
                as often as it is listed, sums inside a logarithm once. Plain index tensors, as returned by
                the miners of pytorch-metric-learning, are accepted too.

        Returns:
            A scalar, float32 or better.
        """
        vectors = check_embeddings(embeddings, labels)
        chosen = from_pml(tuples) if isinstance(tuples, tuple) else tuples
        return self.compute(vectors, labels, chosen) if len(labels) else vectors.sum()

    def compute(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        """Return the loss of vectors (B x D), which are checked and float32 or better."""
        raise NotImplementedError


class RankingLoss(Loss):
    """Base class of losses that rank the whole batch and take no miner; subclasses implement ``compute``."""

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: MinedTuples | None = None) -> Tensor:
        """Return the loss of ``embeddings`` (B x D) with ``labels`` (B): a scalar, float32 or better."""
        if tuples is not None:
            raise UsageError(
                f"{type(self).__name__} ranks the whole batch and takes no miner; drop the miner"
            )
        vectors = check_embeddings(embeddings, labels)
        return self.compute(vectors, labels) if len(labels) else vectors.sum()

    def compute(self, vectors: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of vectors (B x D), which are checked and float32 or better."""
        raise NotImplementedError
