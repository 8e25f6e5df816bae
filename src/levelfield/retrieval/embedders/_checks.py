"""Checks of a model before it is written: its preprocessing, and that a copy returns the same vectors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from levelfield.core.errors import UsageError
from levelfield.data import transforms
from levelfield.models import Embedder
from levelfield.retrieval.embedders._card import Architecture, Preprocessing
from levelfield.retrieval.embedders._embedder import ImageEmbedder


def check_preprocessing(architecture: Architecture, preprocessing: Preprocessing, embedder: Embedder) -> None:
    """Raise if the images would not have the size that the network takes."""
    transforms.create(preprocessing.transform, train=False, **preprocessing.options)
    if set(preprocessing.scales) != {1.0} and embedder.trunk.image_size is not None:
        raise UsageError(
            f"trunk {architecture.trunk} takes images of one size only; leave scales at (1.0,), or set its "
            "option dynamic_img_size if it has one"
        )
    if preprocessing.transform == "none" and preprocessing.size is None:
        raise UsageError(
            'transform "none" does not resize images; set preprocessing.size to the size that the network '
            "was trained with, such as (32, 32)"
        )


def check_same_vectors(embedders: Sequence[Embedder], copy: ImageEmbedder) -> None:
    """Raise if the copy returns other vectors than the originals."""
    shown = copy.preprocess(torch.zeros(3, 512, 512, dtype=torch.uint8))
    noise = torch.rand(2, *shown.shape, generator=torch.Generator().manual_seed(0))
    for original, part in zip(embedders, copy.parts, strict=True):
        training = original.training
        try:
            with torch.inference_mode():
                device = next(original.parameters()).device
                wanted, got = original.eval()(noise.to(device)).cpu(), part(noise)
        finally:
            original.train(training)
        if wanted.shape != got.shape or not torch.allclose(wanted, got, atol=1e-4):
            raise UsageError(
                "a network built from this architecture returns other vectors than the trained one; "
                "pass the pooling, the head and the trunk's options of the training"
            )
