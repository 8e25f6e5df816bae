"""Tail mode against fine-tuning: steps per second on the same trunk and batch, disk, break-even.

    python -m benchmarks.speed.tail [--cuts blocks.6 ...] [--steps N] [--threads T]

EfficientNet-Lite0 with a linear head of 128, multi-similarity, Adam, random images of 224 pixels, batches
of 32. Both read their inputs from memory: decoding and cropping, which tail mode does once per view, are
not measured. Both take turns, so a change in the machine's load affects them alike. Fails if a step at
blocks.6 is less than 5 times as fast.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from levelfield import losses, models
from levelfield.models.extraction import FeatureExtractor

TRUNK, SIZE, BATCH = "timm:tf_efficientnet_lite0", 224, 32


def stepper(trunk: models.Trunk, inputs: Tensor) -> Callable[[], None]:
    """Return a function that trains a network with this trunk for one step on ``inputs``."""
    embedder = models.create_embedder(trunk=trunk, size=128, freeze_bn="statistics")
    optimizer = torch.optim.Adam(embedder.parameters(), lr=1e-4, fused=True)
    loss = losses.create("multi_similarity")
    labels = torch.arange(BATCH) // 4

    def step() -> None:
        optimizer.zero_grad()
        loss(embedder(inputs.float()), labels).backward()
        optimizer.step()

    return step


def seconds(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuts", nargs="+", default=["blocks.5", "blocks.5.3", "blocks.6", "conv_head"])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    images = torch.rand(BATCH, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    whole = models.create_trunk(TRUNK)
    listed = {cut.name: cut for cut in models.list_cuts(whole, image_size=SIZE)}
    finetune = stepper(models.create_trunk(TRUNK), images)
    failed = False
    for name in options.cuts:
        lower, upper = models.split_at_cut(models.create_trunk(TRUNK), name)
        extractor = FeatureExtractor(lower, threads=options.threads)
        rows = np.arange(BATCH)
        extractor.features(rows, images.__getitem__)
        start = time.perf_counter()
        activations = extractor.features(rows, images.__getitem__).half()
        extraction = (time.perf_counter() - start) / BATCH
        tail = stepper(upper, activations)
        times = [(seconds(finetune), seconds(tail)) for _ in range(options.steps + 2)][2:]
        slow, fast = (statistics.median(column) for column in zip(*times, strict=True))
        ratio = statistics.median(one / other for one, other in times)
        # Cost of extracting one view, in epochs of fine-tuning.
        epochs = extraction / (slow / BATCH - fast / BATCH)
        print(
            f"{name:>10}: {1 / fast:6.1f} steps/s against {1 / slow:.2f} of fine-tuning, {ratio:5.1f}x; "
            f"{listed[name].bytes / 1000:.1f} kB per image and view; a view pays after {epochs:.2f} epochs"
        )
        failed |= name == "blocks.6" and ratio < 5
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
