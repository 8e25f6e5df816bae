"""Add a retrieval gallery to a made experiment."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from safetensors.numpy import load_file, save, save_file

from levelfield.records import GALLERY_NEIGHBORS, EmbeddingMap, Gallery, GalleryQuery, Store


def image(shade: int) -> np.ndarray:
    """A gray square as the bytes of a WebP file."""
    stream = io.BytesIO()
    Image.new("RGB", (16, 16), (shade, shade, shade)).save(stream, "WEBP")
    return np.frombuffer(stream.getvalue(), dtype=np.uint8)


def add_gallery(root: Path, *, classes: int = 8, names: str = "class {}") -> Gallery:
    """Add a retrieval gallery to a made experiment; wrong neighbors belong to the next class."""
    index, store = Store(root).experiment_record(), Store(root)
    confirmations = {method: index.selection_ids(method)[0] for method in index.selections}
    n, random = 0, np.random.default_rng(0)
    for selection in (name for method in index.selections for name in index.selection_ids(method)):
        for file in sorted((root / "confirmations" / selection).glob("*.safetensors")):
            arrays: dict[str, Any] = load_file(file)
            n = len(arrays["concatenated.map_at_r"])
            rows = np.arange(n)
            save_file(
                arrays
                | {
                    "classes": (rows % classes).astype(np.int64),
                    "look.queries": rows.astype(np.int32),
                    GALLERY_NEIGHBORS: np.stack([(rows + step) % n for step in (classes, 1)], 1).astype(
                        np.int32
                    ),
                    "look.similarities": np.tile(np.array([0.9, 0.5], np.float32), (n, 1)),
                    "look.map_rows": rows[:40].astype(np.int32),
                    "look.map_vectors": random.normal(size=(40, 3)).astype(np.float32),
                },
                file,
            )
    places = tuple((float(x), float(y)) for x, y in random.normal(size=(40, 2)))
    gallery = Gallery(
        key="made",
        metric="map_at_r",
        queries=(
            GalleryQuery(row=0, why="random"),
            GalleryQuery(row=1, why="hardest"),
            GalleryQuery(row=2, why="differs", between=("contrastive", "triplet")),
        ),
        confirmations=confirmations,
        labels=tuple(int(row % classes) for row in range(n)),
        class_names={label: names.format(label) for label in range(classes)},
        side=96,
        map=EmbeddingMap(method="contrastive", rows=tuple(range(40)), pca=places, tsne=places),
    )
    images = {str(row): image(row * 10) for row in range(20)}
    images |= {f"map.{row}": image(row * 5) for row in range(40)}
    store.write_gallery(gallery, save(images))
    return gallery
