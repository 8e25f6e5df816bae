"""Dataset of random images made from row numbers, for tests of stored datasets."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield.data import Dataset, Rows


@dataclasses.dataclass
class NumberedImages:
    """Images of many sizes, number 4 gray; ``broken`` ones are unreadable until the file ``fixed`` exists."""

    numbers: list[int]
    broken: tuple[int, ...] = ()
    fixed: Path = Path("nowhere")
    pause: float = 0.0
    reads: list[int] = dataclasses.field(default_factory=list)

    def __len__(self) -> int:
        return len(self.numbers)

    def read(self, row: int) -> Tensor:
        number = self.numbers[row]
        self.reads.append(number)
        time.sleep(self.pause)
        if number in self.broken and not self.fixed.exists():
            raise OSError(f"images/{number}.jpg is truncated")
        rng = np.random.default_rng(number)
        height, width = rng.integers(5, 30, 2)
        channels = 1 if number == 4 else 3
        return torch.from_numpy(rng.integers(0, 256, (channels, height, width), dtype=np.uint8))

    def select(self, rows: Rows) -> NumberedImages:
        return dataclasses.replace(self, numbers=[self.numbers[row] for row in rows])


def dataset(count: int = 12, **options: Any) -> Dataset:
    """``count`` images, three per class."""
    return Dataset(
        name="images",
        images=NumberedImages(list(range(count)), **options),
        labels=np.arange(count) // 3,
        class_names=tuple(f"class {i}" for i in range(-(-count // 3))),
        fingerprint=f"images of {count}",
        is_test=np.arange(count) % 2 == 0,
    )
