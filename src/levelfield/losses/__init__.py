"""Losses, one file each: a module with its options as fields, a card and a search space.

Every loss is a class: ``lf.losses.ProxyAnchor(num_classes=100, embedding_size=128)``. Experiment files name
losses; :func:`create` makes one by its name.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from torch import nn

from levelfield.core.lazy import lazy_exports
from levelfield.core.registry import Card, Registry
from levelfield.losses._classification import ClassificationLoss
from levelfield.losses._layers import mlp
from levelfield.losses._module import EmbeddingLoss, Loss, RankingLoss
from levelfield.losses._reduction import HingeReduction, Reduction, reduce

if TYPE_CHECKING:
    from levelfield.losses import regularizers, synthesis
    from levelfield.losses.adaface import AdaFace
    from levelfield.losses.angular import Angular
    from levelfield.losses.arcface import ArcFace
    from levelfield.losses.circle import Circle
    from levelfield.losses.circle_class import CircleClass
    from levelfield.losses.contextual import Contextual
    from levelfield.losses.contrastive import Contrastive
    from levelfield.losses.cosface import CosFace
    from levelfield.losses.cross_entropy import CrossEntropy
    from levelfield.losses.curricularface import CurricularFace
    from levelfield.losses.embedding_expansion import EmbeddingExpansion
    from levelfield.losses.fastap import FastAP
    from levelfield.losses.generalized_lifted import GeneralizedLifted
    from levelfield.losses.group import Group
    from levelfield.losses.hist import Hist
    from levelfield.losses.histogram import Histogram
    from levelfield.losses.hyperbolic import Hyperbolic
    from levelfield.losses.lifted_structure import LiftedStructure
    from levelfield.losses.magface import MagFace
    from levelfield.losses.margin import Margin
    from levelfield.losses.multi_similarity import MultiSimilarity
    from levelfield.losses.nca import NCA
    from levelfield.losses.normalized_softmax import NormalizedSoftmax
    from levelfield.losses.npair import NPair
    from levelfield.losses.ntxent import NTXent
    from levelfield.losses.pnp import PNP
    from levelfield.losses.proxy_anchor import ProxyAnchor
    from levelfield.losses.proxy_nca import ProxyNCA
    from levelfield.losses.proxy_nca_pp import ProxyNCAPlusPlus
    from levelfield.losses.proxy_proxy import ProxyProxy
    from levelfield.losses.quadruplet import Quadruplet
    from levelfield.losses.ranked_list import RankedList
    from levelfield.losses.recall_at_k import RecallAtK
    from levelfield.losses.roadmap import Roadmap
    from levelfield.losses.self_supervised import SelfSupervised
    from levelfield.losses.siglip import SigLIP
    from levelfield.losses.smooth_ap import SmoothAP
    from levelfield.losses.snr_contrastive import SNRContrastive
    from levelfield.losses.snr_triplet import SNRTriplet
    from levelfield.losses.soft_triple import SoftTriple
    from levelfield.losses.sphereface import SphereFace
    from levelfield.losses.subcenter_arcface import SubcenterArcFace
    from levelfield.losses.sum import WeightedSum
    from levelfield.losses.supcon import SupCon
    from levelfield.losses.triplet import Triplet
    from levelfield.losses.tuplet_margin import TupletMargin

__all__ = [
    "NCA",
    "PNP",
    "AdaFace",
    "Angular",
    "ArcFace",
    "Circle",
    "CircleClass",
    "ClassificationLoss",
    "Contextual",
    "Contrastive",
    "CosFace",
    "CrossEntropy",
    "CurricularFace",
    "EmbeddingExpansion",
    "EmbeddingLoss",
    "FastAP",
    "GeneralizedLifted",
    "Group",
    "HingeReduction",
    "Hist",
    "Histogram",
    "Hyperbolic",
    "LiftedStructure",
    "Loss",
    "LossCard",
    "MagFace",
    "Margin",
    "MultiSimilarity",
    "NPair",
    "NTXent",
    "NormalizedSoftmax",
    "ProxyAnchor",
    "ProxyNCA",
    "ProxyNCAPlusPlus",
    "ProxyProxy",
    "Quadruplet",
    "RankedList",
    "RankingLoss",
    "RecallAtK",
    "Reduction",
    "Roadmap",
    "SNRContrastive",
    "SNRTriplet",
    "SelfSupervised",
    "SigLIP",
    "SmoothAP",
    "SoftTriple",
    "SphereFace",
    "SubcenterArcFace",
    "SupCon",
    "Triplet",
    "TupletMargin",
    "WeightedSum",
    "accepts_extra_classes",
    "create",
    "has_proxies",
    "mlp",
    "reduce",
    "register",
    "registry",
    "regularizers",
    "synthesis",
]


@dataclass(frozen=True, kw_only=True)
class LossCard(Card):
    """A loss's card.

    Attributes:
        kind: "embedding" losses compare the samples of a batch with each other. "classification" losses own a
            weight per class, take ``num_classes`` and ``embedding_size``, and need labels 0..num_classes-1.
        tuples: Tuples of a miner that the loss uses; None if it takes no miner.
        embedding: Input of the loss: "unit" vectors, or "raw" vectors, whose length matters. Training passes
            the head's output accordingly. Evaluation uses the cosine in both cases.
        own_lr: Whether the loss has parameters with a learning rate of their own (``loss_lr``).
        loss_lr: Default learning rate of those parameters.
        compares_samples: Whether a classification loss also compares the samples of one class. Its batches
            then hold ``batch.samples_per_class`` samples of a class, as those of embedding losses do.
        recorded: Options outside the search space that are always part of a run's identity, because their
            default has changed.
        reported_by: Papers that report results ("reality-check", "revisiting", "deep-dive", "landmarks").
    """

    kind: Literal["embedding", "classification"] = "embedding"
    tuples: Literal["pairs", "triplets"] | None = None
    embedding: Literal["unit", "raw"] = "unit"
    own_lr: bool = False
    loss_lr: float = 1e-3
    compares_samples: bool = False
    recorded: tuple[str, ...] = ()
    reported_by: tuple[str, ...] = ()


registry = Registry("loss", LossCard, package=__name__)
register = registry.register


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "levelfield.losses.adaface": ("AdaFace",),
        "levelfield.losses.angular": ("Angular",),
        "levelfield.losses.arcface": ("ArcFace",),
        "levelfield.losses.circle": ("Circle",),
        "levelfield.losses.circle_class": ("CircleClass",),
        "levelfield.losses.contextual": ("Contextual",),
        "levelfield.losses.contrastive": ("Contrastive",),
        "levelfield.losses.cosface": ("CosFace",),
        "levelfield.losses.cross_entropy": ("CrossEntropy",),
        "levelfield.losses.curricularface": ("CurricularFace",),
        "levelfield.losses.embedding_expansion": ("EmbeddingExpansion",),
        "levelfield.losses.fastap": ("FastAP",),
        "levelfield.losses.generalized_lifted": ("GeneralizedLifted",),
        "levelfield.losses.group": ("Group",),
        "levelfield.losses.hist": ("Hist",),
        "levelfield.losses.histogram": ("Histogram",),
        "levelfield.losses.hyperbolic": ("Hyperbolic",),
        "levelfield.losses.lifted_structure": ("LiftedStructure",),
        "levelfield.losses.magface": ("MagFace",),
        "levelfield.losses.margin": ("Margin",),
        "levelfield.losses.multi_similarity": ("MultiSimilarity",),
        "levelfield.losses.nca": ("NCA",),
        "levelfield.losses.normalized_softmax": ("NormalizedSoftmax",),
        "levelfield.losses.npair": ("NPair",),
        "levelfield.losses.ntxent": ("NTXent",),
        "levelfield.losses.pnp": ("PNP",),
        "levelfield.losses.proxy_anchor": ("ProxyAnchor",),
        "levelfield.losses.proxy_nca": ("ProxyNCA",),
        "levelfield.losses.proxy_nca_pp": ("ProxyNCAPlusPlus",),
        "levelfield.losses.proxy_proxy": ("ProxyProxy",),
        "levelfield.losses.quadruplet": ("Quadruplet",),
        "levelfield.losses.ranked_list": ("RankedList",),
        "levelfield.losses.recall_at_k": ("RecallAtK",),
        "levelfield.losses.regularizers": ("regularizers",),
        "levelfield.losses.roadmap": ("Roadmap",),
        "levelfield.losses.self_supervised": ("SelfSupervised",),
        "levelfield.losses.siglip": ("SigLIP",),
        "levelfield.losses.smooth_ap": ("SmoothAP",),
        "levelfield.losses.snr_contrastive": ("SNRContrastive",),
        "levelfield.losses.snr_triplet": ("SNRTriplet",),
        "levelfield.losses.soft_triple": ("SoftTriple",),
        "levelfield.losses.sphereface": ("SphereFace",),
        "levelfield.losses.subcenter_arcface": ("SubcenterArcFace",),
        "levelfield.losses.sum": ("WeightedSum",),
        "levelfield.losses.supcon": ("SupCon",),
        "levelfield.losses.synthesis": ("synthesis",),
        "levelfield.losses.triplet": ("Triplet",),
        "levelfield.losses.tuplet_margin": ("TupletMargin",),
    },
)


def create(name: str, /, **options: Any) -> nn.Module:
    """Return the loss called ``name``, e.g. ``create("triplet", margin=0.1)``.

    Call it with embeddings (B x D), labels (B) and, optionally, a miner's tuples. It returns a scalar.
    """
    loss: nn.Module = registry.create(name, **options)
    return loss


def has_proxies(name: str) -> bool:
    """Return whether the loss called ``name`` owns ``weights`` (C x D), one vector per class.

    Example:
        >>> has_proxies("arcface"), has_proxies("soft_triple"), has_proxies("triplet")
        (True, False, False)
    """
    target = registry[name].target
    if not inspect.isclass(target) or not issubclass(target, ClassificationLoss):
        return False
    return target.vectors_per_class is ClassificationLoss.vectors_per_class


def accepts_extra_classes(name: str) -> bool:
    """Return whether the loss called ``name`` accepts unit weights of more classes than it owns.

    Example:
        >>> [accepts_extra_classes(name) for name in ("arcface", "cross_entropy", "triplet")]
        [True, False, False]
    """
    entry = registry[name]
    accepts: bool = getattr(entry.target, "accepts_extra_classes", False)
    return has_proxies(name) and accepts and entry.card.embedding == "unit"
