"""Cost of samplers and miners: drawing one batch from a memory bank, and mining one batch.

    python -m benchmarks.speed.samplers            # samplers against their limits
    python -m benchmarks.speed.samplers --miners   # miners side by side with pytorch-metric-learning's

A figure is the median of several runs in one process. One batch of 112 is drawn from 1,024 samples at D = 128
(m = 10).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch.nn import functional as F

from levelfield import miners, samplers
from levelfield.samplers.memory_bank import MemoryBank

BATCH, CANDIDATES, SIZE = 112, 1024, 128
LIMITS_MS = {"gc": 20.0, "ddm": 20.0, "frd": 60.0}
PEERS = {
    "hard": ("BatchHardMiner", {}),
    "easy_positive": ("BatchEasyHardMiner", {"pos_strategy": "easy", "neg_strategy": "semihard"}),
    "semihard": ("TripletMarginMiner", {"margin": 0.2, "type_of_triplets": "semihard"}),
    "triplet_margin": ("TripletMarginMiner", {"margin": 0.2}),
    "distance_weighted": ("DistanceWeightedMiner", {}),
    "multi_similarity": ("MultiSimilarityMiner", {}),
    "pair_margin": ("PairMarginMiner", {}),
    "angular": ("AngularMiner", {}),
}


def median_ms(work: Callable[[], object], repeats: int) -> float:
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def time_samplers(repeats: int) -> bool:
    """Print the cost of a batch; return True if all limits are met."""
    met = True
    print("| sampler | training set | one batch, ms | limit |\n|---|---|---|---|")
    for samples, classes in ((CANDIDATES, 100), (60_000, 11_000)):
        labels = np.random.default_rng(0).integers(classes, size=samples)
        bank = MemoryBank(samples, SIZE)
        random = torch.Generator().manual_seed(0)
        bank.update(np.arange(samples), F.normalize(torch.randn(samples, SIZE, generator=random)))
        for name in samplers.registry.names():
            entry = samplers.registry[name]
            sampler = entry.target(labels, batch_size=BATCH, seed=0)
            if entry.card.needs_bank:
                sampler.attach(bank)
            stream = sampler.epoch(0, repeats + 1)
            cost = median_ms(partial(next, stream), repeats)
            limit = LIMITS_MS.get(name)
            met &= limit is None or cost < limit
            print(f"| {name} | {samples:,} | {cost:.2f} | {f'{limit:g}' if limit else ''} |")
    return met


def side_by_side(repeats: int) -> None:
    """Print the cost of mining a batch of 4 samples per class, and the ratio to the peer's."""
    from pytorch_metric_learning import miners as peers

    print("| miner | batch | ours, ms | pytorch-metric-learning, ms | ratio |\n|---|---|---|---|---|")
    for size in (32, 128, 512):
        random = torch.Generator().manual_seed(0)
        batch = F.normalize(torch.randn(size, SIZE, generator=random)), torch.arange(size) // 4
        for name in miners.registry.names():
            cost = median_ms(partial(miners.create(name), *batch), repeats)
            if name not in PEERS:
                print(f"| {name} | {size} | {cost:.2f} | | |")
                continue
            title, options = PEERS[name]
            other = median_ms(partial(getattr(peers, title)(**options), *batch), repeats)
            print(f"| {name} | {size} | {cost:.2f} | {other:.2f} | {other / cost:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--miners", action="store_true")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    if options.miners:
        side_by_side(options.repeats)
    elif not time_samplers(options.repeats):
        sys.exit("a sampler is slower than its limit")


if __name__ == "__main__":
    main()
