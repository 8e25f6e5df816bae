"""Reading training batches: the image store against torchvision's ImageFolder with PIL.

    python -m benchmarks.speed.store --root CUB_200_2011/images

Both make batches of 32 with the same crops (mlrc: shorter side 256, random resized crop 227, flip) from
the same images in the same order, on one thread. Rounds alternate and processor time counts, so other
work on the machine has little effect. Each round reads the same images in a new order, as an epoch does;
the first round is a warm-up. Figures are images per second of one core.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torchvision import transforms as T
from torchvision.datasets import ImageFolder
from torchvision.transforms.functional import pil_to_tensor

from levelfield.data import Dataset, store, transforms

BATCH = 32
Batches = list[npt.NDArray[np.int64]]


class FolderImages:
    """Images of an ImageFolder, as levelfield reads them."""

    def __init__(self, folder: ImageFolder) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return len(self.folder)

    def read(self, row: int) -> Tensor:
        return pil_to_tensor(self.folder.loader(self.folder.samples[row][0]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="image folder")
    parser.add_argument("--to", type=Path, help="directory of the store; a temporary one by default")
    parser.add_argument("--images", type=int, default=1024, help="images per round, the same in each")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2, help="number of processes that prepare the store")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        print(json.dumps(measure(options, options.to or Path(temporary)), indent=2))


def measure(options: argparse.Namespace, directory: Path) -> dict[str, object]:
    folder = ImageFolder(str(options.root))
    dataset = Dataset(
        name=options.root.name,
        images=FolderImages(folder),  # type: ignore[arg-type]  # reads images only
        labels=np.array(folder.targets),
        class_names=tuple(folder.classes),
        fingerprint=f"benchmark of {options.root} with {len(folder)} images",
    )
    started = time.perf_counter()
    path = store.prepare(dataset, directory, workers=options.workers)
    preparing = time.perf_counter() - started
    packed = store.PackedImages.open(path)
    ways = {
        "PIL, uint8": pil_way(options.root, T.PILToTensor()),
        "PIL, float": pil_way(options.root, T.ToTensor()),
        "store": store_way(packed),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(dataset))[: options.images]
    for _ in range(options.rounds + 1):
        rows = rng.permutation(chosen)
        batches = np.array_split(rows, max(1, len(rows) // BATCH))
        for name, way in ways.items():
            before = time.process_time()
            way(batches)
            rates[name].append(len(rows) / (time.process_time() - before))
    medians = {name: statistics.median(found[1:]) for name, found in rates.items()}  # the first warms up
    return {
        "images": len(dataset),
        "preparing, seconds": round(preparing, 1),
        "images per second per core": {name: round(rate) for name, rate in medians.items()},
        "rounds": {name: [round(rate) for rate in found[1:]] for name, found in rates.items()},
        "ratio to PIL, uint8": round(medians["store"] / medians["PIL, uint8"], 1),
        "ratio to PIL, float": round(medians["store"] / medians["PIL, float"], 1),
    }


def pil_way(root: Path, last: Callable[..., Tensor]) -> Callable[[Batches], None]:
    crop = T.RandomResizedCrop(227, scale=(0.16, 1), ratio=(3 / 4, 4 / 3))
    plain = ImageFolder(str(root), T.Compose([T.Resize(256), crop, T.RandomHorizontalFlip(), last]))

    def read(batches: Batches) -> None:
        for rows in batches:
            torch.stack([plain[row][0] for row in rows])

    return read


def store_way(packed: store.PackedImages) -> Callable[[Batches], None]:
    transform = transforms.create("mlrc", train=True)
    generator = torch.Generator().manual_seed(0)

    def read(batches: Batches) -> None:
        for rows in batches:
            transform([packed.read(row) for row in rows], generator)

    return read


if __name__ == "__main__":
    main()
