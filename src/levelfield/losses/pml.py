"""Losses of pytorch-metric-learning as ``pml:NAME``; needs the extra ``peers``."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from levelfield.core.errors import UsageError
from levelfield.core.geometry import MinedTuples
from levelfield.core.registry import RegistryEntry, package_source
from levelfield.core.seeds import seed_for
from levelfield.losses import LossCard, registry
from levelfield.losses._classification import check_labels
from levelfield.miners.pml_bridge import (
    collect_parameters,
    create_parts,
    find_class,
    import_pml_module,
    isolate_global_rng,
    make_factory,
    to_pml,
)

REFUSED = {
    "GenericPairLoss": "is a base class; choose a loss that is derived from it",
    "MultipleLosses": "has another form here; write sum:ONE+TWO with the names of the losses",
    "CrossBatchMemory": "is a memory around a loss; set memory.capacity of the method instead",
    "SelfSupervisedLoss": "wraps a loss; use levelfield.losses.SelfSupervised in your own loop",
}
OF_VIEWS = {"VICRegLoss"}  # takes two views of each sample; here, two samples of each class
SIZE_NAMES = {"P2SGradLoss": "descriptors_dim", "ManifoldLoss": "l"}
CLASS_NAMES = {"ManifoldLoss": "K"}  # a proxy for each class; there, for each of K random groups


class PMLLoss(nn.Module):
    """Loss of pytorch-metric-learning with its own random stream.

    The stream depends on the seed and on the number of calls, which is part of the state dict. So a resumed
    run draws the same numbers as an uninterrupted one. Everything is computed in float32 or better. If a
    miner finds nothing, the loss is zero; half of that library's losses would use all tuples instead.

    Args:
        loss: Called with embeddings (B x D), labels (B) and index tensors.
        num_classes: Number of classes that the loss has weights for; None if it has no weights.
        seed: Seed of the stream.
    """

    calls: Tensor

    def __init__(self, loss: nn.Module, *, num_classes: int | None, seed: int) -> None:
        super().__init__()
        self.loss = loss
        self.num_classes = num_classes
        self.seed = seed
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: MinedTuples | None = None) -> Tensor:
        """Return the loss of ``embeddings`` (B x D) with ``labels`` (B): a scalar."""
        if self.num_classes is not None:
            check_labels(labels, self.num_classes, name=f"pml:{type(self.loss).__name__}")
        if tuples is not None and not any(len(indices) for indices in tuples.indices):
            return (embeddings * 0.0).sum()
        number = seed_for("pml loss", self.seed, int(self.calls))
        self.calls += 1
        vectors = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
        with isolate_global_rng(number, vectors.device), torch.autocast(vectors.device.type, enabled=False):
            value: Any = self._call(vectors, labels, tuples)
        if not isinstance(value, Tensor):
            raise UsageError(
                f"pml:{type(self.loss).__name__} returns no number with its reducer; choose another reducer"
            )
        return torch.squeeze(value)  # ManifoldLoss returns a vector of one number

    def _call(self, vectors: Tensor, labels: Tensor, tuples: MinedTuples | None) -> Tensor:
        value: Tensor
        if type(self.loss).__name__ in OF_VIEWS:
            one, two = pair_views(labels)
            if len(one) < 2:  # one pair has no variance
                return (vectors * 0.0).sum()
            value = self.loss(vectors[one], ref_emb=vectors[two])
            return value
        if type(self.loss).__name__ in CLASS_NAMES:  # takes groups instead of labels
            value = self.loss(vectors, indices_tuple=labels)
            return value
        try:
            value = self.loss(vectors, labels, to_pml(tuples))
        except KeyError as error:
            if error.args != ("divisor",):
                raise
            raise UsageError(
                f"pml:{type(self.loss).__name__} gives DivisorReducer no divisor; choose another reducer"
            ) from error
        except IndexError as error:
            self._check_class_weights(labels, error)
            raise
        return value

    def _check_class_weights(self, labels: Tensor, cause: IndexError) -> None:
        """Raise UsageError if a reducer has fewer weights than there are classes."""
        for part in self.loss.modules():
            weights = getattr(part, "weights", None)
            if type(part).__name__ != "ClassWeightedReducer" or not isinstance(weights, Tensor):
                continue
            if len(weights) <= int(labels.max()):
                raise UsageError(
                    f"ClassWeightedReducer has {len(weights)} weights, but there is a class "
                    f"{int(labels.max())}; give one weight for each class, from class 0"
                ) from cause


def pair_views(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of pairs of one class: first and second sample, third and fourth, and so on.

    A sample that is left over has no partner and is left out.

    Example:
        >>> pair_views(torch.tensor([5, 7, 5, 7, 5]))
        (tensor([0, 1]), tensor([2, 3]))
    """
    order = labels.argsort(stable=True)
    _, counts = torch.unique(labels, return_counts=True)
    place = torch.arange(len(labels), device=labels.device)
    place = place - (counts.cumsum(0) - counts).repeat_interleave(counts)
    first = ((place % 2 == 0) & (place + 1 < counts.repeat_interleave(counts))).nonzero().squeeze(1)
    return order[first], order[first + 1]


@registry.family("pml")
def find_pml_loss(name: str) -> RegistryEntry[LossCard]:
    """Return the registry entry of the loss ``pml:name``."""
    found = find_class("losses", name, base="BaseMetricLossFunction", refused=REFUSED)
    parameters = collect_parameters(found)
    size_name = SIZE_NAMES.get(name, "embedding_size")
    if size_name in parameters:
        parameters["embedding_size"] = parameters.pop(size_name).replace(name="embedding_size")
    class_name = CLASS_NAMES.get(name, "num_classes")
    if class_name in parameters:
        required = parameters.pop(class_name).replace(name="num_classes")
        if name in CLASS_NAMES:
            required = required.replace(default=inspect.Parameter.empty)
        parameters["num_classes"] = required
    classes = parameters.get("num_classes")
    classifies = classes is not None and classes.default is inspect.Parameter.empty

    def make(*, seed: int = 0, **options: Any) -> PMLLoss:
        num_classes = options.get("num_classes")
        for ours, theirs in (("embedding_size", size_name), ("num_classes", class_name)):
            if ours in options:
                options[theirs] = options.pop(ours)
        with isolate_global_rng(seed_for("pml weights", seed), torch.device("cpu")):
            loss = found(**create_parts(options))
        return PMLLoss(loss, num_classes=num_classes if classifies else None, seed=seed)

    return RegistryEntry(
        make_factory(name, make, parameters, {"seed": 0}),
        LossCard(
            name=f"pml:{name}",
            summary=f"{name} of pytorch-metric-learning.",
            kind="classification" if classifies else "embedding",
            embedding="raw" if name in OF_VIEWS else "unit",
            tuples=_tuples(found),
            own_lr=classifies or "learn_beta" in parameters,
        ),
        package_source("pytorch-metric-learning"),
    )


def _tuples(found: type) -> Any:
    """Return the kind of tuples that the loss uses; None if it takes no miner, which only its code shows."""
    module = inspect.getmodule(found)
    assert module is not None
    if found.__name__ in CLASS_NAMES or "indices_tuple_not_supported" in inspect.getsource(module):
        return None
    return "pairs" if issubclass(found, import_pml_module("losses").GenericPairLoss) else "triplets"
