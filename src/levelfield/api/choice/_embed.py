"""Embeddings of a dataset by a model, and the speed of the model on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from levelfield.analysis import ModelCost
from levelfield.api.choice._encoders import Encoder, call_encoder
from levelfield.core.errors import RunError
from levelfield.data import Dataset, transforms
from levelfield.models import Embedder
from levelfield.models.extraction import FeatureExtractor
from levelfield.models.features import cached_features

BATCH = 32
ROUNDS = 3
Progress = Callable[[int, int], None]


def embed_dataset(encoder: Encoder, dataset: Dataset, cache: Path, *, progress: Progress) -> Tensor:
    """Return the embeddings (N x D, float32) of all images.

    Features of trunks are cached, and an interrupted computation is continued. Those of your own functions
    are not, because nothing tells if the function still computes the same.
    """
    if isinstance(encoder.network, Embedder):
        store = cached_features(
            cache,
            source=encoder.network,
            dataset=dataset,
            transform=encoder.transform,
            transform_options=encoder.transform_options,
            progress=progress,
        )
        return store.all().clone()
    parts: list[Tensor] = []
    for start in range(0, len(dataset), BATCH):
        rows = range(start, min(start + BATCH, len(dataset)))
        part = call_encoder(encoder, _pixels(encoder, dataset, rows))
        check_same_size(encoder, part, *parts[:1])
        parts.append(part)
        progress(rows.stop, len(dataset))
    return torch.cat(parts)


def check_same_size(encoder: Encoder, found: Tensor, *before: Tensor) -> None:
    """Raise RunError if a model returned embeddings of another size before."""
    for part in before:
        if found.shape[1] != part.shape[1]:
            raise RunError(
                f"{encoder.name} returned {found.shape[1]} numbers per image, {part.shape[1]} before; its "
                "output must have one size"
            )


def measure_cost(encoder: Encoder, dataset: Dataset, *, size: int, seconds: float) -> ModelCost:
    """Measure the speed of the network, with pixels in memory, and count its parameters.

    Args:
        encoder: Model.
        dataset: Images to take the pixels from.
        size: Numbers in an embedding.
        seconds: Shortest time of each of three rounds; the median counts. 0 runs one batch a round.
    """
    pixels = _pixels(encoder, dataset, range(min(BATCH, len(dataset))))
    run = _runner(encoder, pixels)
    run()  # the first batch allocates memory
    rates = []
    for _ in range(ROUNDS):
        done, start = 0, time.perf_counter()
        while not done or time.perf_counter() - start < seconds:
            run()
            done += len(pixels)
        rates.append(done / (time.perf_counter() - start))
    weights = encoder.parameters
    return ModelCost(
        images_per_second=float(np.median(rates)),
        image_size=encoder.image_size,
        size=size,
        parameters=None if weights is None else sum(each.numel() for each in weights),
        megabytes=None
        if weights is None
        else sum(each.numel() * each.element_size() for each in weights) / 1e6,
    )


def _runner(encoder: Encoder, pixels: Tensor) -> Callable[[], object]:
    if not isinstance(encoder.network, Embedder):
        return lambda: call_encoder(encoder, pixels)
    extractor = FeatureExtractor(encoder.network)
    rows = np.arange(len(pixels))
    return lambda: extractor.features(rows, lambda wanted: pixels[torch.as_tensor(wanted)])


def _pixels(encoder: Encoder, dataset: Dataset, rows: range) -> Tensor:
    transform = transforms.create(encoder.transform, train=False, **encoder.transform_options)
    return transform([dataset.images.read(row) for row in rows], torch.Generator())
