"""Fine-tuning on the CPU: levelfield against a plain PyTorch + timm loop.

    python -m benchmarks.speed.finetune --root CUB [--steps N] [--rounds R] [--loaders N] [--prepared]

Both train all of EfficientNet-Lite0 with a linear head of 128 dimensions, multi-similarity loss and
AdamW, on the same batches of CUB's images (random resized crop 224, flip), on one thread with the same
number of loader processes. The plain loop uses a DataLoader with persistent workers, torchvision v2 on
tensors, zero_grad(set_to_none) and pytorch-metric-learning's loss; "channels last" adds that layout and
the fused optimizer. levelfield runs ``levelfield.train.train_run`` with its checks for divergence; with
--prepared it reads the image store. The time is from the first batch to the end of the epoch. Rounds
alternate. Figures are medians; ratios are per round.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import timm
import torch
from pytorch_metric_learning.losses import MultiSimilarityLoss
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2

import levelfield as lf
from levelfield import models
from levelfield.data import Dataset, FileImages, Rows, store, transforms
from levelfield.protocol import resolve_experiment
from levelfield.records import RunDirectory
from levelfield.train import FoldData, ImageInputs, train_run

NETWORK, SIZE = "tf_efficientnet_lite0", 128


class Stopwatch:
    """Measures the time from the first batch of training to the end of the epoch."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, batches: Iterable[Tensor]) -> Iterator[Tensor]:
        start = 0.0
        for batch in batches:
            start = start or time.perf_counter()
            yield batch
        self.seconds = time.perf_counter() - start


class TimedInputs(ImageInputs):
    """Images whose training epoch is timed."""

    watch: Stopwatch

    def train(
        self, plan: Iterable[Rows], stream: tuple[str | int, ...], *, ahead: bool = True
    ) -> Iterator[Tensor]:
        return self.watch.around(super().train(plan, stream, ahead=ahead))


class TensorImages:
    """torchvision v2: images are decoded into a tensor, transforms work on uint8."""

    def __init__(self, files: list[str], labels: np.ndarray) -> None:
        crop = v2.RandomResizedCrop(224, antialias=True)
        to_float = v2.ToDtype(torch.float32, scale=True)
        norm = v2.Normalize((0.5,) * 3, (0.5,) * 3)
        self.files, self.labels = files, labels
        self.transform = v2.Compose([crop, v2.RandomHorizontalFlip(), to_float, norm])

    def __getitem__(self, row: int) -> tuple[Tensor, int]:
        return self.transform(decode_image(self.files[row], mode=ImageReadMode.RGB)), int(self.labels[row])


def plain(data: Dataset, plan: list[Rows], *, loaders: int, channels_last: bool) -> Callable[[], float]:
    """Return the plain loop: a function that trains and returns its seconds."""
    assert isinstance(data.images, FileImages)
    files = [str(data.images.root / path) for path in data.images.paths]
    batches = DataLoader(
        TensorImages(files, data.labels),  # type: ignore[arg-type]  # has what a map-style dataset needs
        batch_sampler=[rows.tolist() for rows in plan],
        num_workers=loaders,
        persistent_workers=loaders > 0,
    )
    network: nn.Module = timm.create_model(NETWORK, num_classes=SIZE)
    layout = torch.channels_last if channels_last else torch.contiguous_format
    network.to(memory_format=layout)  # type: ignore[call-overload]  # torch's types lack this call
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=channels_last or None)
    loss = MultiSimilarityLoss()

    def round_of_steps() -> float:
        watch = Stopwatch()
        network.train()
        for images, labels in watch.around(batches):
            optimizer.zero_grad(set_to_none=True)
            value = loss(network(images.to(memory_format=layout)), labels)
            value.backward()
            optimizer.step()
        return watch.seconds

    return round_of_steps


def ours(
    data: Dataset, images: lf.data.Images, *, batch: int, steps: int, loaders: int
) -> Callable[[], float]:
    experiment = lf.Experiment.build(
        name="speed",
        preset="demo",
        trunk={"name": f"timm:{NETWORK}", "mode": "finetune"},
        transform={"name": "base"},
        head={"size": SIZE},
        batch={"size": batch, "samples_per_class": 4},
        optimizer={"name": "adamw", "lr": 1e-4},
        training={"iterations_per_epoch": steps, "max_epochs": 1, "evaluate_every": 1},
        methods=["multi_similarity"],
    )
    resolved = resolve_experiment(experiment)
    spec = resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0)
    inputs = TimedInputs(images, partial(transforms.create, "base"), loaders=loaders)
    rows = np.arange(len(data), dtype=np.int64)
    fold = FoldData(inputs, data.labels, train=rows, validation=rows[:4])

    def round_of_steps() -> float:
        inputs.watch = Stopwatch()
        embedder = models.create_embedder(trunk=models.create_trunk(f"timm:{NETWORK}"), size=SIZE)
        with tempfile.TemporaryDirectory() as folder:
            train_run(spec, fold, embedder, RunDirectory(Path(folder)))
        return inputs.watch.seconds

    return round_of_steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="CUB_200_2011")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loaders", type=int, default=1)
    parser.add_argument("--prepared", action="store_true", help="levelfield reads a prepared image store")
    options = parser.parse_args()
    torch.set_num_threads(1)
    whole = lf.data.load("cub200", root=str(options.root))
    data = whole.select(np.flatnonzero(whole.labels < 20))
    sampler = lf.samplers.create(
        "class_balanced", data.labels, batch_size=options.batch, samples_per_class=4, seed=0
    )
    plan = list(sampler.epoch(1, options.steps))
    same = {"loaders": options.loaders}
    with tempfile.TemporaryDirectory() as folder:
        images = data.images
        if options.prepared:
            images = store.PackedImages.open(store.prepare(data, folder, workers=2))
        ways = {
            "plain": plain(data, plan, channels_last=False, **same),
            "plain, channels last": plain(data, plan, channels_last=True, **same),
            "levelfield": ours(data, images, batch=options.batch, steps=options.steps, **same),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(options.rounds + 1):
            for name, way in ways.items():
                taken = way()
                if number:  # the first round warms up
                    times[name].append(taken)
    count = options.steps * options.batch
    print(
        json.dumps(
            {
                "images per second": {n: round(count / statistics.median(t), 1) for n, t in times.items()},
                "levelfield against": {
                    name: [round(a / b, 2) for a, b in zip(times[name], times["levelfield"], strict=True)]
                    for name in list(ways)[:2]
                },
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
