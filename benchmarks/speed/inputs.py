"""Batches from background processes: levelfield's loaders against torchvision's DataLoader.

    python -m benchmarks.speed.inputs --root CUB_200_2011 [--loaders N] [--images N] [--rounds R]

All variants make batches of 32 from the same images in the same order, with the same crops (mlrc: shorter
side 256, random resized crop 227, flip), with the same number of processes:

- torchvision: images opened by PIL, torchvision's transforms, DataLoader;
- torchvision v2: images decoded by torchvision.io, transforms v2 on uint8 tensors, DataLoader;
- JPEG and store: ``levelfield.train.ImageInputs``, from the same files and from a prepared image store.

Rounds alternate and the ratio of each round counts, because other work on the machine slows consecutive
measurements alike. Figures are medians. Then the script measures the share of a training step that is
spent waiting; the step sleeps for 50 ms, as if a GPU computed. Last, it measures images per second of
processor time in one process, which other work on the machine affects least.
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
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torchvision import transforms as v1
from torchvision.datasets.folder import default_loader
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms import v2

import levelfield as lf
from levelfield.data import FileImages, Images, store, transforms
from levelfield.train import ImageInputs

BATCH, STEP, WAITING_STEPS = 32, 0.050, 40
Plan = list[npt.NDArray[np.int64]]
Way = Callable[[Plan], Iterable[Tensor]]


class PillowImages:
    """torchvision: PIL opens the file, transforms work on PIL images."""

    def __init__(self, files: list[str]) -> None:
        crop = v1.RandomResizedCrop(227, scale=(0.16, 1))
        steps = [v1.Resize(256), crop, v1.RandomHorizontalFlip(), v1.PILToTensor()]
        self.files, self.transform = files, v1.Compose(steps)

    def __getitem__(self, row: int) -> Tensor:
        image: Tensor = self.transform(default_loader(self.files[row]))
        return image


class TensorImages:
    """torchvision v2: images are decoded into a tensor, transforms work on uint8."""

    def __init__(self, files: list[str]) -> None:
        crop = v2.RandomResizedCrop(227, scale=(0.16, 1), antialias=True)
        self.files = files
        self.transform = v2.Compose([v2.Resize(256, antialias=True), crop, v2.RandomHorizontalFlip()])

    def __getitem__(self, row: int) -> Tensor:
        image: Tensor = self.transform(decode_image(self.files[row], mode=ImageReadMode.RGB))
        return image


def peer(images: PillowImages | TensorImages, loaders: int) -> Way:
    batches: Plan = []
    loader = DataLoader(
        images,  # type: ignore[arg-type]  # has what a map-style dataset needs
        batch_sampler=_Now(batches),
        num_workers=loaders,
        persistent_workers=True,
    )

    def way(plan: Plan) -> Iterable[Tensor]:
        batches[:] = plan
        return loader

    return way


class _Now:
    """Batches of the current round."""

    def __init__(self, batches: Plan) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return iter([rows.tolist() for rows in self.batches])


def ours(images: Images, loaders: int) -> Way:
    inputs = ImageInputs(images, partial(transforms.create, "mlrc"), loaders=loaders)
    return lambda plan: inputs.train(plan, ("benchmark",))


def seconds(way: Way, plan: Plan) -> float:
    start = time.perf_counter()
    for _ in way(plan):
        pass
    return time.perf_counter() - start


Maker = Callable[[npt.NDArray[np.int64]], Tensor]


def work(makers: dict[str, Maker], count: int, rounds: int) -> dict[str, int]:
    """Return images per second of processor time in this process; medians over alternating rounds."""
    rates: dict[str, list[float]] = {name: [] for name in makers}
    plan = np.array_split(np.arange(count), count // BATCH)
    for _ in range(rounds + 1):
        for name, make in makers.items():
            before = time.process_time()
            for rows in plan:
                make(rows)
            rates[name].append(count / (time.process_time() - before))
    return {name: round(statistics.median(found[1:])) for name, found in rates.items()}


def stacked(images: PillowImages | TensorImages) -> Maker:
    return lambda rows: torch.stack([images[int(row)] for row in rows])


def here(images: Images) -> Maker:
    inputs = ImageInputs(images, partial(transforms.create, "mlrc"))
    return lambda rows: next(inputs.train([rows], ("benchmark",)))


def waiting(way: Way, plan: Plan) -> float:
    """Return the share of a step spent waiting; the first steps fill the queue and do not count."""
    plan = plan * -(-WAITING_STEPS // len(plan))
    batches, waits = iter(way(plan)), []
    for _ in plan:
        start = time.perf_counter()
        next(batches)
        waits.append(time.perf_counter() - start)
        time.sleep(STEP)
    waited = sum(waits[3:])
    return waited / (waited + STEP * len(waits[3:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="CUB_200_2011")
    parser.add_argument("--images", type=int, default=1024, help="images per round, the same in each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loaders", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    whole = lf.data.load("cub200", root=str(options.root))
    dataset = whole.select(np.sort(random.permutation(len(whole))[: options.images]))
    assert isinstance(dataset.images, FileImages)
    paths = [str(dataset.images.root / path) for path in dataset.images.paths]
    with tempfile.TemporaryDirectory() as folder:
        packed = store.PackedImages.open(store.prepare(dataset, folder, workers=options.loaders))
        ways = {
            "torchvision": peer(PillowImages(paths), options.loaders),
            "torchvision v2": peer(TensorImages(paths), options.loaders),
            "JPEG": ours(dataset.images, options.loaders),
            "store": ours(packed, options.loaders),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(options.rounds + 1):
            rows = random.permutation(len(dataset)).astype(np.int64)
            plan = np.array_split(rows, max(1, len(rows) // BATCH))
            for name, way in ways.items():
                taken = seconds(way, plan)
                if number:  # the first round starts processes and fills caches
                    times[name].append(taken)
        waits = {name: waiting(ways[name], plan) for name in ("JPEG", "store")}
        makers = {
            "torchvision": stacked(PillowImages(paths)),
            "torchvision v2": stacked(TensorImages(paths)),
            "JPEG": here(dataset.images),
            "store": here(packed),
        }
        alone = work(makers, min(128, len(dataset)), options.rounds)
    faster = [min(one, two) for one, two in zip(times["torchvision"], times["torchvision v2"], strict=True)]
    ratios = {name: [base / own for base, own in zip(faster, times[name], strict=True)] for name in waits}
    rates = {name: round(len(dataset) / statistics.median(found)) for name, found in times.items()}
    print(
        json.dumps(
            {
                "loaders": options.loaders,
                "images per second": rates,
                "ratio to the faster torchvision": {
                    name: {
                        "median": round(statistics.median(found), 2),
                        "rounds": [round(ratio, 2) for ratio in found],
                    }
                    for name, found in ratios.items()
                },
                "share of a 50 ms step spent waiting": {n: f"{100 * w:.1f}%" for n, w in waits.items()},
                "images per second of processor time": alone,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
