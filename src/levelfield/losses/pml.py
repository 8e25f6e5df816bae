"""Any loss of pytorch-metric-learning, as ``pml:NAME``; needs the extra ``peers``."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from levelfield.geometry import Tuples
from levelfield.losses import LossCard, registry
from levelfield.losses._classification import check_labels
from levelfield.miners.pml_bridge import (
    factory,
    find_class,
    module,
    own_stream,
    parameters_of,
    to_pml,
    with_parts,
)
from levelfield.registry import Entry, package_source
from levelfield.seeds import seed_for

REFUSED = {
    "GenericPairLoss": "is a base class",
    "ManifoldLoss": "clusters without labels",
    "VICRegLoss": "compares two views of each sample, not labels",
}
SIZE_NAMES = {"P2SGradLoss": "descriptors_dim"}


class PMLLoss(nn.Module):
    """A loss of pytorch-metric-learning, with a random stream of its own.

    The stream depends on the seed and on the number of calls, which is saved with the loss's state: a
    resumed run draws what an unbroken one draws. Everything is computed in float32 or better. A miner that
    found nothing makes the loss zero; on its own, half of the library would take all tuples instead.

    Args:
        loss: Called with embeddings (B x D), labels (B) and index tensors.
        num_classes: How many classes the loss has weights for, if it has.
        seed: Of the stream.
    """

    calls: Tensor

    def __init__(self, loss: nn.Module, *, num_classes: int | None, seed: int) -> None:
        super().__init__()
        self.loss = loss
        self.num_classes = num_classes
        self.seed = seed
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: Tuples | None = None) -> Tensor:
        """The loss of ``embeddings`` (B x D) with ``labels`` (B): a scalar."""
        if self.num_classes is not None:
            check_labels(labels, self.num_classes, name=f"pml:{type(self.loss).__name__}")
        if tuples is not None and not any(len(indices) for indices in tuples.indices):
            return (embeddings * 0.0).sum()
        number = seed_for("pml loss", self.seed, int(self.calls))
        self.calls += 1
        vectors = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
        with own_stream(number, vectors.device), torch.autocast(vectors.device.type, enabled=False):
            value: Tensor = self.loss(vectors, labels, to_pml(tuples))
        return value


@registry.family("pml")
def resolve(name: str) -> Entry[LossCard]:
    """The entry of the loss ``pml:name``."""
    found = find_class("losses", name, base="BaseMetricLossFunction", refused=REFUSED)
    parameters = parameters_of(found)
    size_name = SIZE_NAMES.get(name, "embedding_size")
    if size_name in parameters:
        parameters["embedding_size"] = parameters.pop(size_name).replace(name="embedding_size")
    classes = parameters.get("num_classes")
    classifies = classes is not None and classes.default is inspect.Parameter.empty

    def make(*, seed: int = 0, **options: Any) -> PMLLoss:
        if "embedding_size" in options:
            options[size_name] = options.pop("embedding_size")
        with own_stream(seed_for("pml weights", seed), torch.device("cpu")):
            loss = found(**with_parts(options))
        return PMLLoss(loss, num_classes=options["num_classes"] if classifies else None, seed=seed)

    return Entry(
        factory(name, make, parameters, {"seed": 0}),
        LossCard(
            name=f"pml:{name}",
            summary=f"{name} of pytorch-metric-learning.",
            kind="classification" if classifies else "embedding",
            tuples=_tuples(found),
            own_lr=classifies or "learn_beta" in parameters,
        ),
        package_source("pytorch-metric-learning"),
    )


def _tuples(found: type) -> Any:
    """Which tuples the loss uses; None if it refuses a miner, which shows in its code alone."""
    if "indices_tuple_not_supported" in inspect.getsource(inspect.getmodule(found)):  # type: ignore[arg-type]
        return None
    return "pairs" if issubclass(found, module("losses").GenericPairLoss) else "triplets"
