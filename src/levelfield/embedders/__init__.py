"""A trained embedder as a folder to keep, publish and use: pictures in, unit vectors out."""

from __future__ import annotations

from levelfield.embedders._card import (
    Architecture,
    Data,
    ModelCard,
    Preprocessing,
    Score,
    Threshold,
    read_card,
)
from levelfield.embedders._embedder import PictureEmbedder
from levelfield.embedders._folder import build_network, load_embedder, write_model
from levelfield.embedders.pictures import Picture, pixels_of
from levelfield.embedders.threshold import calibrate

__all__ = [
    "Architecture",
    "Data",
    "ModelCard",
    "Picture",
    "PictureEmbedder",
    "Preprocessing",
    "Score",
    "Threshold",
    "build_network",
    "calibrate",
    "load_embedder",
    "pixels_of",
    "read_card",
    "write_model",
]
