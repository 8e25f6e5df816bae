"""Images and transforms for the tests of loaders; a module, so that loader processes can import it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import torch
from torch import Tensor

from levelfield.data import Rows


class FromGlobalGenerator:
    """Draws as torchvision's transforms do."""

    def __call__(self, images: list[Tensor], generator: torch.Generator) -> Tensor:
        noise = torch.randint(0, 256, (len(images), 1, 4, 4), dtype=torch.uint8)
        return noise + torch.randint(0, 9, noise.shape, dtype=torch.uint8, generator=generator)


def from_global_generator(*, train: bool) -> FromGlobalGenerator:
    return FromGlobalGenerator()


class Deadly:
    """Images of which one ends the process that reads it, as the kernel does when memory runs out."""

    def __init__(self, parent: int) -> None:
        self._parent = parent

    def __len__(self) -> int:
        return 9

    def read(self, row: int) -> Tensor:
        if row == 7 and os.getpid() != self._parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(1, 4, 4, dtype=torch.uint8)

    def select(self, rows: Rows) -> Deadly:
        return self


class NotesItsReader:
    """Images that leave a file named after the process that read them."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __len__(self) -> int:
        return 9

    def read(self, row: int) -> Tensor:
        Path(self._folder, str(os.getpid())).touch()
        return torch.zeros(1, 4, 4, dtype=torch.uint8)

    def select(self, rows: Rows) -> NotesItsReader:
        return self


class OnGpu:
    """A transform that says that it wants a GPU, and notes the process that it runs in."""

    device = "cuda"

    def __call__(self, images: list[Tensor], generator: torch.Generator) -> Tensor:
        sums = [int(image.long().sum()) for image in images]
        return torch.tensor(
            [[os.getpid(), *image.shape, total] for image, total in zip(images, sums, strict=True)]
        )


def on_gpu(*, train: bool) -> OnGpu:
    return OnGpu()
