"""What every classification loss shares: seeded weights, checks at the border, softmax cross-entropy."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from levelfield.errors import UsageError
from levelfield.geometry import Tuples
from levelfield.losses._module import Loss
from levelfield.losses._reduction import Reduction, reduce
from levelfield.seeds import torch_generator


class ClassificationLoss(Loss):
    """Base of the losses that own weight vectors for each class; each implements ``compute``.

    The weights start as N(0, ``start_std()``²) drawn from a stream of their own, so that a model and its loss
    can be made in any order.
    """

    takes_more_classes: ClassVar[bool] = True
    """Whether ``weights`` of more classes than C can be handed in: false if there is more to a class."""

    num_classes: int
    """C; labels are 0..C-1."""
    embedding_size: int
    """D, the width of the embeddings."""
    seed: int = 0
    """Of the starting weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("num_classes", self.num_classes)
        check_count("embedding_size", self.embedding_size)
        shape = self.num_classes * self.vectors_per_class(), self.embedding_size
        start = torch.randn(shape, generator=torch_generator("class weights", self.seed))
        self.weights = nn.Parameter(start * self.start_std())

    def vectors_per_class(self) -> int:
        """How many weight vectors each class has; they stand in consecutive rows of ``weights``."""
        return 1

    def start_std(self) -> float:
        """The spread of the starting weights."""
        return 1.0

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        tuples: Tuples | None = None,
        *,
        weights: Tensor | None = None,
    ) -> Tensor:
        """The loss of a batch, computed in float32 or better and with autocast off.

        A cosine rounded to bfloat16 and then scaled by 64 is no cosine any more.

        Args:
            embeddings: B x D, as they come from the head.
            labels: B, in 0..num_classes-1.
            tuples: Refused, if any: samples are compared with classes.
            weights: Those to compare with, instead of its own: of more classes, made by a synthesis.

        Returns:
            A scalar.
        """
        weights = self.weights if weights is None else weights
        self._check(embeddings, labels, tuples, num_classes=len(weights) // self.vectors_per_class())
        dtype = torch.promote_types(torch.promote_types(embeddings.dtype, weights.dtype), torch.float32)
        with torch.autocast(embeddings.device.type, enabled=False):
            vectors, weights = embeddings.to(dtype), weights.to(dtype)
            if not len(labels):
                return vectors.sum() + weights.sum() * 0
            return self.compute(vectors, labels.long(), weights)

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The formula, on embeddings (B x D), labels (B) and weights that are checked and of one dtype."""
        raise NotImplementedError

    def _check(self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None, *, num_classes: int) -> None:
        name = type(self).__name__
        if tuples is not None:
            raise UsageError(
                f"{name} compares samples with classes and takes no mined tuples; drop the miner"
            )
        if embeddings.ndim != 2 or embeddings.shape[1] != self.embedding_size:
            raise UsageError(
                f"{name} was made for embeddings of shape B x {self.embedding_size}, got "
                f"{tuple(embeddings.shape)}; set embedding_size to the embedder's size"
            )
        if labels.shape != embeddings.shape[:1]:
            raise UsageError(
                f"{name} needs one label per embedding, got labels of shape {tuple(labels.shape)} for "
                f"{len(embeddings)} embeddings"
            )
        # Under torch.compile the values are unknown, and looking at them would break the graph.
        if not torch.compiler.is_compiling():
            check_labels(labels, num_classes, name=name)


def softmax_loss(
    logits: Tensor, labels: Tensor, *, reduction: Reduction = "mean", label_smoothing: float = 0.0
) -> Tensor:
    """Cross-entropy of ``logits`` (B x C) with ``labels`` (B), one loss per sample, reduced to a scalar.

    Example:
        >>> softmax_loss(torch.tensor([[9.0, 9.0], [9.0, 9.0]]), torch.tensor([0, 1]), reduction="sum")
        tensor(1.3863)
    """
    if reduction == "mean" and len(labels) > 0:
        return F.cross_entropy(logits, labels, label_smoothing=label_smoothing)  # in one fused pass
    losses = F.cross_entropy(logits, labels, label_smoothing=label_smoothing, reduction="none")
    return reduce(losses, torch.ones_like(losses), reduction)


def check_labels(labels: Tensor, num_classes: int, *, name: str = "the loss") -> None:
    """Refuse ``labels`` (B) that are not whole numbers in 0..num_classes-1.

    Example:
        >>> check_labels(torch.tensor([0, 3]), 3, name="ArcFace")
        Traceback (most recent call last):
        ...
        levelfield.errors.UsageError: ArcFace was made for labels 0..2, got 3; renumber the training ...
    """
    if labels.dtype.is_floating_point or labels.dtype == torch.bool:
        raise UsageError(f"{name} needs whole-number labels, got {labels.dtype}; convert them with .long()")
    if labels.numel() == 0:
        return
    low, high = torch.stack(torch.aminmax(labels)).tolist()
    if low < 0 or high >= num_classes:
        raise UsageError(
            f"{name} was made for labels 0..{num_classes - 1}, got {low if low < 0 else high}; "
            "renumber the training classes from 0 or raise num_classes"
        )


def check_count(name: str, value: int) -> None:
    """Refuse a ``value`` that is not a whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name} must be a whole number of at least 1, got {value!r}")


def check_positive(name: str, value: float) -> None:
    """Refuse a ``value`` that is not above zero."""
    if not value > 0:
        raise UsageError(f"{name} must be above 0, got {value!r}")
