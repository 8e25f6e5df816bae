"""Trained embedders in model directories: images in, unit vectors out."""

from __future__ import annotations

from levelfield.retrieval.embedders._card import (
    Architecture,
    MatchThreshold,
    ModelCard,
    ModelScore,
    Preprocessing,
    TrainingData,
    read_model_card,
)
from levelfield.retrieval.embedders._embedder import ImageEmbedder
from levelfield.retrieval.embedders._model_directory import build_network, load_embedder, write_model
from levelfield.retrieval.embedders.images import ImageInput, decode_pixels
from levelfield.retrieval.embedders.threshold import calibrate_threshold
from levelfield.retrieval.embedders.two_towers import import_two_towers

__all__ = [
    "Architecture",
    "ImageEmbedder",
    "ImageInput",
    "MatchThreshold",
    "ModelCard",
    "ModelScore",
    "Preprocessing",
    "TrainingData",
    "build_network",
    "calibrate_threshold",
    "decode_pixels",
    "import_two_towers",
    "load_embedder",
    "read_model_card",
    "write_model",
]
