"""Regularizers: terms that are added to a loss, one file each, with options as fields and a card.

Every regularizer is a class: ``lf.losses.regularizers.KoLeo(eps=1e-6)``. Experiment files name regularizers;
:func:`create` makes one by its name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor

from levelfield.core.lazy import lazy_exports
from levelfield.core.registry import Card, Registry
from levelfield.losses._module import Loss

if TYPE_CHECKING:
    from levelfield.losses.regularizers.anti_collapse import AntiCollapse, AntiCollapseProxies
    from levelfield.losses.regularizers.hier import Hier
    from levelfield.losses.regularizers.koleo import KoLeo
    from levelfield.losses.regularizers.l2 import L2
    from levelfield.losses.regularizers.non_isotropy import NonIsotropy
    from levelfield.losses.regularizers.threshold_consistent_margin import ThresholdConsistentMargin
    from levelfield.losses.regularizers.zero_mean import ZeroMean

__all__ = [
    "L2",
    "AntiCollapse",
    "AntiCollapseProxies",
    "FunctionRegularizer",
    "Hier",
    "KoLeo",
    "NonIsotropy",
    "Regularizer",
    "RegularizerCard",
    "ThresholdConsistentMargin",
    "ZeroMean",
    "create",
    "register",
    "registry",
]


class Regularizer(Loss):
    """Base of the regularizers; each implements ``forward``.

    ``forward`` takes embeddings (B x D) and returns a scalar. It also takes, by keyword, the inputs that the
    card lists in ``sees``: ``labels`` (B) and ``proxies`` (C x D).
    """

    if TYPE_CHECKING:

        def __call__(self, embeddings: Tensor, **inputs: Any) -> Tensor:
            """Return the regularizer's value, a scalar."""
            ...


class FunctionRegularizer(Regularizer):
    """Regularizer from a function of embeddings (B x D) and, by keyword, the inputs that its card lists."""

    function: Callable[..., Tensor]
    """The function, with its options filled in."""

    def forward(self, embeddings: Tensor, **inputs: Tensor) -> Tensor:
        """Return the function's value, a scalar."""
        return self.function(embeddings, **inputs)


@dataclass(frozen=True, kw_only=True)
class RegularizerCard(Card):
    """A regularizer's card.

    Attributes:
        sees: Inputs besides the embeddings, passed by keyword: "labels" (B), or "proxies" (C x D), the
            weights of a classification loss. A regularizer that needs proxies works only with such a loss.
        lr: Default learning rate of its parameters; None if it has none.
    """

    sees: tuple[Literal["labels", "proxies"], ...] = ()
    lr: float | None = None


registry = Registry(
    "regularizer", RegularizerCard, package=__name__, supplied=("num_classes", "embedding_size", "seed")
)
register = registry.register


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "levelfield.losses.regularizers.anti_collapse": ("AntiCollapse", "AntiCollapseProxies"),
        "levelfield.losses.regularizers.hier": ("Hier",),
        "levelfield.losses.regularizers.koleo": ("KoLeo",),
        "levelfield.losses.regularizers.l2": ("L2",),
        "levelfield.losses.regularizers.non_isotropy": ("NonIsotropy",),
        "levelfield.losses.regularizers.threshold_consistent_margin": ("ThresholdConsistentMargin",),
        "levelfield.losses.regularizers.zero_mean": ("ZeroMean",),
    },
)


def create(name: str, /, **options: Any) -> Regularizer:
    """Return the regularizer called ``name``; a registered function becomes a :class:`FunctionRegularizer`.

    Example:
        >>> import torch
        >>> create("l2")(torch.tensor([[3.0, 4.0]]))
        tensor(25.)
        >>> x, y = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
        >>> create("threshold_consistent_margin", positive_margin=0.5)(x, labels=y)
        tensor(0.5000)
    """
    entry = registry[name]
    if inspect.isclass(entry.target):
        module: Regularizer = registry.create(name, **options)
        return module
    return FunctionRegularizer(function=partial(entry.target, **registry.check_options(entry, options)))
