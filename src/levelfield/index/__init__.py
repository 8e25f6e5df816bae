"""Many pictures as vectors that can be searched: on disk, or in a database."""

from __future__ import annotations

from levelfield.index._approximate import EXACT_UP_TO, Approximation, choose
from levelfield.index._build import Outcome, add_pictures
from levelfield.index._card import IndexCard, check_same_model
from levelfield.index._catalog import Item, NewItem
from levelfield.index._exact import search_exactly
from levelfield.index._local import LocalIndex, changing, describe, open_index, writing
from levelfield.index._searcher import Answer, Neighbour, Searcher
from levelfield.index._sources import Entry, pictures_in_csv, pictures_in_dataset, pictures_in_folder
from levelfield.index._store import VectorStore

__all__ = [
    "EXACT_UP_TO",
    "Answer",
    "Approximation",
    "Entry",
    "IndexCard",
    "Item",
    "LocalIndex",
    "Neighbour",
    "NewItem",
    "Outcome",
    "Searcher",
    "VectorStore",
    "add_pictures",
    "changing",
    "check_same_model",
    "choose",
    "describe",
    "open_index",
    "pictures_in_csv",
    "pictures_in_dataset",
    "pictures_in_folder",
    "search_exactly",
    "writing",
]
