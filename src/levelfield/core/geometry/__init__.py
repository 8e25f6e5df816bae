"""Geometry of a batch: unit vectors, distances, positive and negative pairs.

Miners and losses share these functions, so both use the same distances and the same pairs.
"""

from __future__ import annotations

from levelfield.core.geometry._chunks import iterate_chunks
from levelfield.core.geometry._closed_form import (
    attach_gradient,
    loss_of_cosines,
    loss_of_distances,
    loss_of_products,
)
from levelfield.core.geometry._distances import (
    as_float32,
    check_embeddings,
    dot_products,
    euclidean,
    l2_normalize,
    plus_transpose,
    row_distances,
    signal_to_noise,
)
from levelfield.core.geometry._gradients import first_derivative_only
from levelfield.core.geometry._pairs import (
    PositivePairs,
    any_triplet,
    bool_pair_masks,
    list_positives,
    pair_counts,
    pair_masks,
    pairs_of_anchors,
)
from levelfield.core.geometry._tuples import (
    MinedTuples,
    Pairs,
    Triplets,
    as_pairs,
    as_triplets,
    keep_batch_anchors,
    select_batch_rows,
)

__all__ = [
    "MinedTuples",
    "Pairs",
    "PositivePairs",
    "Triplets",
    "any_triplet",
    "as_float32",
    "as_pairs",
    "as_triplets",
    "attach_gradient",
    "bool_pair_masks",
    "check_embeddings",
    "dot_products",
    "euclidean",
    "first_derivative_only",
    "iterate_chunks",
    "keep_batch_anchors",
    "l2_normalize",
    "list_positives",
    "loss_of_cosines",
    "loss_of_distances",
    "loss_of_products",
    "pair_counts",
    "pair_masks",
    "pairs_of_anchors",
    "plus_transpose",
    "row_distances",
    "select_batch_rows",
    "signal_to_noise",
]
