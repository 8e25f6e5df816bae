"""Images and transforms for tests of loaders; a module, so that loader processes can import it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from levelfield.data import Rows


class FromGlobalGenerator:
    """Transform that uses the global random generator, like torchvision's transforms."""

    def __call__(self, images: list[Tensor], generator: torch.Generator) -> Tensor:
        noise = torch.randint(0, 256, (len(images), 1, 4, 4), dtype=torch.uint8)
        return noise + torch.randint(0, 9, noise.shape, dtype=torch.uint8, generator=generator)


def from_global_generator(*, train: bool) -> FromGlobalGenerator:
    return FromGlobalGenerator()


class KillsReader:
    """Images where reading row 7 kills the process, as the kernel does when memory runs out."""

    def __init__(self, parent: int) -> None:
        self._parent = parent

    def __len__(self) -> int:
        return 9

    def read(self, row: int) -> Tensor:
        if row == 7 and os.getpid() != self._parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(1, 4, 4, dtype=torch.uint8)

    def select(self, rows: Rows) -> KillsReader:
        return self


class RecordsReader:
    """Images that write a file named after the process that reads them."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def __len__(self) -> int:
        return 9

    def read(self, row: int) -> Tensor:
        Path(self._directory, str(os.getpid())).touch()
        return torch.zeros(1, 4, 4, dtype=torch.uint8)

    def select(self, rows: Rows) -> RecordsReader:
        return self


class OnGpu:
    """Transform for a GPU that returns the ID of its process."""

    device = "cuda"

    def __call__(self, images: Sequence[Tensor], generator: torch.Generator) -> Tensor:
        sums = [int(image.long().sum()) for image in images]
        return torch.tensor(
            [[os.getpid(), *image.shape, total] for image, total in zip(images, sums, strict=True)]
        )


def on_gpu(*, train: bool) -> OnGpu:
    return OnGpu()
