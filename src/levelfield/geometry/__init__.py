"""The geometry of one batch: unit vectors, distances, and who is a positive or a negative of whom.

Miners choose by it and losses compute on it, so both see the same distances and the same pairs.
"""

from __future__ import annotations

from levelfield.geometry._direct import loss_of_cosines, loss_of_distances, with_gradient
from levelfield.geometry._distances import checked, euclidean, products, signal_to_noise, unit
from levelfield.geometry._gradients import first_derivative_only
from levelfield.geometry._pairs import (
    PositivePairs,
    any_triplet,
    list_positives,
    pair_counts,
    pair_masks,
    pairs_of_anchors,
    relations,
)
from levelfield.geometry._parts import parts
from levelfield.geometry._tuples import (
    Pairs,
    Triplets,
    Tuples,
    as_pairs,
    as_triplets,
    of_batch,
    with_anchors_in_batch,
)

__all__ = [
    "Pairs",
    "PositivePairs",
    "Triplets",
    "Tuples",
    "any_triplet",
    "as_pairs",
    "as_triplets",
    "checked",
    "euclidean",
    "first_derivative_only",
    "list_positives",
    "loss_of_cosines",
    "loss_of_distances",
    "of_batch",
    "pair_counts",
    "pair_masks",
    "pairs_of_anchors",
    "parts",
    "products",
    "relations",
    "signal_to_noise",
    "unit",
    "with_anchors_in_batch",
    "with_gradient",
]
