"""What every classification loss shares: seeded weights, checks at the border, softmax cross-entropy."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from levelfield.errors import UsageError
from levelfield.losses._reduction import Reduction, reduce
from levelfield.miners import Tuples
from levelfield.seeds import torch_generator


class ClassificationLoss(nn.Module):
    """Base of the losses that own ``vectors_per_class`` weight vectors for each class.

    ``function`` is the loss with its options bound; it is called with embeddings, labels and weights that are
    checked and at least float32, with autocast off: a cosine rounded to bfloat16 and then scaled by 64 is no
    cosine any more.

    The weights start as N(0, ``std``²) drawn from a stream of their own, so that a model and its loss
    can be made in any order.
    """

    def __init__(
        self,
        function: partial[Tensor],
        *,
        num_classes: int,
        embedding_size: int,
        seed: int,
        std: float = 1.0,
        vectors_per_class: int = 1,
    ) -> None:
        super().__init__()
        check_count("num_classes", num_classes)
        check_count("embedding_size", embedding_size)
        self.function = function
        self.num_classes = num_classes
        self.embedding_size = embedding_size
        start = torch.randn(
            num_classes * vectors_per_class, embedding_size, generator=torch_generator("class weights", seed)
        )
        self.weights = nn.Parameter(start * std)

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None) -> Tensor:
        """The loss of ``embeddings`` (B x D) with ``labels`` (B) in 0..num_classes-1, a scalar."""
        self._check(embeddings, labels, tuples)
        dtype = torch.promote_types(torch.promote_types(embeddings.dtype, self.weights.dtype), torch.float32)
        with torch.autocast(embeddings.device.type, enabled=False):
            return self.compute(embeddings.to(dtype), labels.long(), self.weights.to(dtype))

    def compute(self, embeddings: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        """The loss itself, from inputs that are checked and of one dtype."""
        return self.function(embeddings, labels, weights)

    def extra_repr(self) -> str:
        """The shape and the options, for print."""
        options = {"num_classes": self.num_classes, "embedding_size": self.embedding_size}
        return ", ".join(f"{name}={value!r}" for name, value in (options | self.function.keywords).items())

    def _check(self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None) -> None:
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
            check_labels(labels, self.num_classes, name=name)


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
