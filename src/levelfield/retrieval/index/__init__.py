"""Image indexes: image vectors that can be searched, on disk or in a database."""

from __future__ import annotations

from levelfield.retrieval.index._approximate import EXACT_UP_TO, ApproximateCard, choose_index_type
from levelfield.retrieval.index._build import IndexingResult, add_images
from levelfield.retrieval.index._card import IndexCard, check_same_model
from levelfield.retrieval.index._catalog import IndexedImage, NewImage
from levelfield.retrieval.index._exact import search_exactly
from levelfield.retrieval.index._filters import Condition, parse_filters
from levelfield.retrieval.index._local import (
    LocalIndex,
    describe_search,
    edit_index,
    open_index,
    open_or_create_index,
)
from levelfield.retrieval.index._metadata import add_dates, add_metadata
from levelfield.retrieval.index._reranking import RERANKINGS, Reranking
from levelfield.retrieval.index._searcher import Neighbor, SearchAnswer, Searcher
from levelfield.retrieval.index._sources import (
    SourceImage,
    images_from_csv,
    images_from_dataset,
    images_from_folder,
)
from levelfield.retrieval.index._store import VectorStore
from levelfield.retrieval.index._update import UpdatedIndex, open_store, remove_images, update_index

__all__ = [
    "EXACT_UP_TO",
    "RERANKINGS",
    "ApproximateCard",
    "Condition",
    "IndexCard",
    "IndexedImage",
    "IndexingResult",
    "LocalIndex",
    "Neighbor",
    "NewImage",
    "Reranking",
    "SearchAnswer",
    "Searcher",
    "SourceImage",
    "UpdatedIndex",
    "VectorStore",
    "add_dates",
    "add_images",
    "add_metadata",
    "check_same_model",
    "choose_index_type",
    "describe_search",
    "edit_index",
    "images_from_csv",
    "images_from_dataset",
    "images_from_folder",
    "open_index",
    "open_or_create_index",
    "open_store",
    "parse_filters",
    "remove_images",
    "search_exactly",
    "update_index",
]
