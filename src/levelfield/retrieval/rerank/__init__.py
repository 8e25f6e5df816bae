"""Re-ranking: better rankings from the same embeddings, one function per paper.

All functions take unit vectors and no labels. Choose their parameters on development data.
"""

from __future__ import annotations

from levelfield.retrieval.rerank._sets import RetrievalSet, retrieval_sets_from_files
from levelfield.retrieval.rerank.comparison import RERANKERS, RerankingResult, compare_rerankers
from levelfield.retrieval.rerank.database_augmentation import augment_database
from levelfield.retrieval.rerank.diffusion import rerank_diffusion
from levelfield.retrieval.rerank.k_reciprocal import rerank_k_reciprocal
from levelfield.retrieval.rerank.query_expansion import expand_queries
from levelfield.retrieval.rerank.ranking import nearest, required_depth, score_ranking
from levelfield.retrieval.rerank.views import embed_views, image_views
from levelfield.retrieval.rerank.whitening import Whitening, fit_whitening

__all__ = [
    "RERANKERS",
    "RerankingResult",
    "RetrievalSet",
    "Whitening",
    "augment_database",
    "compare_rerankers",
    "embed_views",
    "expand_queries",
    "fit_whitening",
    "image_views",
    "nearest",
    "required_depth",
    "rerank_diffusion",
    "rerank_k_reciprocal",
    "retrieval_sets_from_files",
    "score_ranking",
]
