"""Better rankings from the same embeddings: one small function per paper.

All take unit vectors, and none looks at a label. Parameters are to be chosen on development data.
"""

from __future__ import annotations

from levelfield.rerank.comparison import RERANKERS, Effect, Pictures, compare_rerankers, pictures_of
from levelfield.rerank.database_augmentation import augment_database
from levelfield.rerank.diffusion import rerank_diffusion
from levelfield.rerank.k_reciprocal import rerank_k_reciprocal
from levelfield.rerank.query_expansion import expand_queries
from levelfield.rerank.ranking import depth_for, nearest, score_ranking
from levelfield.rerank.views import embed_views
from levelfield.rerank.whitening import Whitening, fit_whitening

__all__ = [
    "RERANKERS",
    "Effect",
    "Pictures",
    "Whitening",
    "augment_database",
    "compare_rerankers",
    "depth_for",
    "embed_views",
    "expand_queries",
    "fit_whitening",
    "nearest",
    "pictures_of",
    "rerank_diffusion",
    "rerank_k_reciprocal",
    "score_ranking",
]
