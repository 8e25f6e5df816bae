"""Retrieval metrics: functions of the ranks of a query's relevant items.

In the formulas R is the number of relevant items of a query, rank_j the rank of its j-th relevant item. Each
function returns one value per query; the score is their mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.metrics._registry import register
from levelfield.metrics._relevance import RelevantHits

REALITY_CHECK = "A Metric Learning Reality Check (ECCV 2020)"
REVISITED = "Revisiting Oxford and Paris: Large-Scale Image Retrieval Benchmarking (CVPR 2018)"
REVISITING = "Revisiting Training Strategies and Generalization Performance in DML (ICML 2020)"


@register(
    "precision_at_1",
    higher_is_better=True,
    label="P@1",
    unit="percent",
    depth=1,
    first=True,
    paper=REALITY_CHECK,
)
def precision_at_1(hits: RelevantHits) -> Tensor:
    """Return 1 if the nearest item is relevant, else 0; equals recall_at_1."""
    return precision_at_k(hits, k=1)


@register("r_precision", higher_is_better=True, label="RP", unit="percent", depth="r", paper=REALITY_CHECK)
def r_precision(hits: RelevantHits) -> Tensor:
    """Return the share of relevant items among the nearest R."""
    return hits.count(hits.rank <= hits.relevant[hits.row]) / hits.relevant


@register("map_at_r", higher_is_better=True, label="MAP@R", unit="percent", depth="r", paper=REALITY_CHECK)
def map_at_r(hits: RelevantHits) -> Tensor:
    """Return the average precision at R: the sum of j / rank_j over rank_j <= R, divided by R."""
    return hits.total(hits.nth / hits.rank, hits.rank <= hits.relevant[hits.row]) / hits.relevant


@register("map_c", higher_is_better=True, label="mAP@C", unit="percent", depth="r+1", paper=REVISITING)
def map_c(hits: RelevantHits) -> Tensor:
    """Return the mAP of "Revisiting Training Strategies": map_at_r with the query counted in R; below 1."""
    own = hits.relevant + 1
    return hits.total(hits.nth / hits.rank, hits.rank <= own[hits.row]) / own


@register("recall_at_K", higher_is_better=True, label="R@K", unit="percent", depth="k", first=True)
def recall_at_k(hits: RelevantHits, *, k: int) -> Tensor:
    """Return 1 if at least one of the nearest K items is relevant, else 0."""
    return hits.count((hits.nth == 1) & (hits.rank <= k))


@register("precision_at_K", higher_is_better=True, label="P@K", unit="percent", depth="k")
def precision_at_k(hits: RelevantHits, *, k: int) -> Tensor:
    """Return the share of relevant items among the nearest K."""
    return hits.count(hits.rank <= k) / k


@register("map_at_K", higher_is_better=True, label="mAP@K", unit="percent", depth="k")
def map_at_k(hits: RelevantHits, *, k: int) -> Tensor:
    """Return the average precision of the nearest K, divided by min(R, K), as in the landmark challenge."""
    return hits.total(hits.nth.double() / hits.rank, hits.rank <= k) / hits.relevant.clamp(max=k)


@register("map", higher_is_better=True, label="mAP", unit="percent", depth="all")
def mean_average_precision(hits: RelevantHits) -> Tensor:
    """Return the average precision over the whole ranking: the mean of j / rank_j."""
    return hits.total(hits.nth.double() / hits.rank, hits.rank > 0) / hits.relevant


@register(
    "map_trapezoid",
    higher_is_better=True,
    label="mAP (trapezoid)",
    unit="percent",
    depth="all",
    paper=REVISITED,
)
def map_trapezoid(hits: RelevantHits) -> Tensor:
    """Return the area under precision and recall by trapezoids, the mAP of Revisited Oxford and Paris.

    Each relevant item adds the mean of two precisions, before and after it: (j - 1) / (rank_j - 1), or 1 at
    the first rank, and j / rank_j.
    """
    before = ((hits.nth - 1).double() / (hits.rank - 1).clamp(min=1)).where(hits.rank > 1, 1.0)
    return hits.total((before + hits.nth.double() / hits.rank) / 2, hits.rank > 0) / hits.relevant


@register("mp_at_K", higher_is_better=True, label="mP@K", unit="percent", depth="k", paper=REVISITED)
def mp_at_k(hits: RelevantHits, *, k: int) -> Tensor:
    """Return the precision of the nearest K, or up to the last relevant item if that is nearer.

    So a query with fewer than K relevant items can reach 1, as in Revisited Oxford and Paris.
    """
    near = hits.rank <= k
    last = hits.total(hits.rank, near & (hits.nth == hits.relevant[hits.row]))  # 0 if it is farther than K
    return hits.count(near) / last.where(last > 0, k)


@register("mrr", higher_is_better=True, label="MRR", unit="percent", depth="all", first=True)
def mean_reciprocal_rank(hits: RelevantHits) -> Tensor:
    """Return one over the rank of the first relevant item."""
    return hits.total(1.0 / hits.rank.double(), hits.nth == 1)


@register("ndcg_at_K", higher_is_better=True, label="nDCG@K", unit="percent", depth="k")
def ndcg_at_k(hits: RelevantHits, *, k: int) -> Tensor:
    """Return the discounted gain (1 / log2(1 + rank)) of the nearest K, relative to a perfect ranking."""
    gain = hits.total(1.0 / torch.log2(1.0 + hits.rank.double()), hits.rank <= k)
    places = torch.arange(1, k + 1, dtype=torch.float64, device=gain.device)
    ideal = torch.cumsum(1.0 / torch.log2(1.0 + places), 0)
    return gain / ideal[hits.relevant.clamp(max=k) - 1]
