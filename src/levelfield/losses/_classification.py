"""Base class of classification losses: seeded weights, input checks, softmax cross-entropy."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from levelfield.core.errors import UsageError
from levelfield.core.geometry import MinedTuples
from levelfield.core.seeds import torch_generator
from levelfield.losses._module import Loss
from levelfield.losses._reduction import Reduction, reduce


class ClassificationLoss(Loss):
    """Base class of losses that own weight vectors of classes; subclasses implement ``compute``.

    The initial weights are N(0, ``init_std()``²), drawn from their own random stream. So a model and its loss
    can be created in any order.
    """

    accepts_extra_classes: ClassVar[bool] = True
    """True if ``weights`` of more than C classes are accepted; false if a class has other parameters too."""

    num_classes: int
    """C; labels are 0..C-1."""
    embedding_size: int
    """D, the width of the embeddings."""
    seed: int = 0
    """Seed of the initial weights."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("num_classes", self.num_classes)
        check_count("embedding_size", self.embedding_size)
        shape = self.num_classes * self.vectors_per_class(), self.embedding_size
        start = torch.randn(shape, generator=torch_generator("class weights", self.seed))
        self.weights = nn.Parameter(start * self.init_std())

    def vectors_per_class(self) -> int:
        """Return the number of weight vectors per class; they are consecutive rows of ``weights``."""
        return 1

    def init_std(self) -> float:
        """Return the standard deviation of the initial weights."""
        return 1.0

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor,
        tuples: MinedTuples | None = None,
        *,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return the loss of a batch, computed in float32 or better and without autocast.

        A cosine rounded to bfloat16 and then scaled by 64 would be too inexact.

        Args:
            embeddings: B x D, the output of the head.
            labels: B, in 0..num_classes-1.
            tuples: Must be None, because samples are compared with classes.
            weights: Weights to use instead of the loss's own, such as those of a synthesis with more classes.

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
        """Return the loss of checked embeddings (B x D), labels (B) and weights of one dtype."""
        raise NotImplementedError

    def _check(
        self, embeddings: Tensor, labels: Tensor, tuples: MinedTuples | None, *, num_classes: int
    ) -> None:
        name = type(self).__name__
        if tuples is not None:
            raise UsageError(
                f"{name} compares samples with classes and takes no mined tuples; drop the miner"
            )
        if embeddings.ndim != 2 or embeddings.shape[1] != self.embedding_size:
            raise UsageError(
                f"{name} expects embeddings of shape B x {self.embedding_size}, got "
                f"{tuple(embeddings.shape)}; set embedding_size to the embedder's size"
            )
        if labels.shape != embeddings.shape[:1]:
            raise UsageError(
                f"{name} needs one label per embedding, got labels of shape {tuple(labels.shape)} for "
                f"{len(embeddings)} embeddings; give a tensor of shape (B,)"
            )
        # Under torch.compile the values are unknown, and reading them would break the graph.
        if not torch.compiler.is_compiling():
            check_labels(labels, num_classes, name=name)


def softmax_loss(
    logits: Tensor, labels: Tensor, *, reduction: Reduction = "mean", label_smoothing: float = 0.0
) -> Tensor:
    """Return the cross-entropy of ``logits`` (B x C) with ``labels`` (B), reduced to a scalar.

    Example:
        >>> softmax_loss(torch.tensor([[9.0, 9.0], [9.0, 9.0]]), torch.tensor([0, 1]), reduction="sum")
        tensor(1.3863)
    """
    if reduction == "mean" and len(labels) > 0:
        return F.cross_entropy(logits, labels, label_smoothing=label_smoothing)  # fused
    losses = F.cross_entropy(logits, labels, label_smoothing=label_smoothing, reduction="none")
    return reduce(losses, torch.ones_like(losses), reduction)


def check_labels(labels: Tensor, num_classes: int, *, name: str = "the loss") -> None:
    """Raise UsageError if ``labels`` (B) are not whole numbers in 0..num_classes-1.

    Example:
        >>> check_labels(torch.tensor([0, 3]), 3, name="ArcFace")
        Traceback (most recent call last):
        ...
        levelfield.core.errors.UsageError: ArcFace expects labels 0..2, got 3; renumber the training classes
            ...
    """
    if labels.dtype.is_floating_point or labels.dtype == torch.bool:
        raise UsageError(f"{name} needs whole-number labels, got {labels.dtype}; convert them with .long()")
    if labels.numel() == 0:
        return
    low, high = torch.stack(torch.aminmax(labels)).tolist()
    if low < 0 or high >= num_classes:
        raise UsageError(
            f"{name} expects labels 0..{num_classes - 1}, got {low if low < 0 else high}; "
            "renumber the training classes from 0 or raise num_classes"
        )


def check_count(name: str, value: int) -> None:
    """Raise UsageError if ``value`` is not a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError(f"{name} must be a whole number of at least 1, got {value!r}; correct it")


def check_positive(name: str, value: float) -> None:
    """Raise UsageError if ``value`` is not above 0."""
    if not value > 0:
        raise UsageError(f"{name} must be above 0, got {value!r}; correct it")
