"""Training a linear head from cached features, with a pair loss: batches of 32 per second.

    python benchmarks/head_training.py [--batches N] [--threads T]

Each step draws a class-balanced batch, gathers its features from the memory-mapped store, runs head and
contrastive loss forward and backward, and takes an RMSprop step. Fails below 400 batches a second.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from levelfield import batches, losses, models
from levelfield.models.features import FeatureStore, Shape

SAMPLES, CLASSES, WIDTH = 5864, 100, 1280  # CUB's training half in the features of EfficientNet-Lite0


def random_store(folder: Path) -> FeatureStore:
    file = folder / "features.f32"
    torch.rand(SAMPLES, WIDTH, generator=torch.Generator().manual_seed(0)).numpy().tofile(file)
    return FeatureStore(file, Shape(views=1, rows=SAMPLES, width=WIDTH))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    labels = np.arange(SAMPLES) % CLASSES
    labels_tensor = torch.as_tensor(labels)
    sampler = batches.create("class_balanced", labels, batch_size=32, seed=0, samples_per_class=4)
    head = models.create_head("linear", num_features=WIDTH, size=128)
    loss = losses.create("contrastive")
    optimizer = torch.optim.RMSprop(head.parameters(), lr=1e-4, weight_decay=1e-4, momentum=0.9)
    with tempfile.TemporaryDirectory() as folder:
        store = random_store(Path(folder))
        best = 0.0
        for number in range(options.rounds):
            start = time.perf_counter()
            for rows in sampler.epoch(number, iterations=options.batches):
                optimizer.zero_grad()
                loss(head(store.batch(rows)), labels_tensor[rows]).backward()
                optimizer.step()
            best = max(best, options.batches / (time.perf_counter() - start))
    print(
        f"{WIDTH} features -> 128, contrastive, {options.threads} threads: {best:.0f} batches of 32 a second"
    )
    return 0 if best >= 400 else 1


if __name__ == "__main__":
    sys.exit(main())
