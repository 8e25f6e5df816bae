"""Loader processes and transfer of batches to the device."""

from __future__ import annotations

import torch
from torch import Tensor

from levelfield.config import EngineSpec
from levelfield.core.devices import available_cores
from levelfield.data import Images, MemoryImages

MAX_LOADERS = 8  # more than a disk or a GPU can use, on most machines


def choose_loaders(engine: EngineSpec, images: Images, *, device: str) -> int:
    """Return the number of processes that load images for each run.

    "auto" gives every run the cores that its threads leave free, at most ``MAX_LOADERS``, and at least one on
    a GPU. Images in memory need none.
    """
    if engine.loaders != "auto":
        return engine.loaders
    if isinstance(images, MemoryImages):
        return 0
    runs = engine.workers if isinstance(engine.workers, int) else available_cores() // engine.threads
    cores = available_cores() // max(1, runs)
    if torch.device(device).type == "cpu":
        return max(0, min(cores - engine.threads, MAX_LOADERS))
    return max(1, min(cores - 1, MAX_LOADERS))


def to_device(batch: Tensor, device: str) -> Tensor:
    """Return a batch on ``device``; the copy to a CUDA device is asynchronous, from pinned memory."""
    if device == "cpu":
        return batch
    if torch.device(device).type != "cuda" or batch.is_cuda:
        return batch.to(device)
    return batch.pin_memory().to(device, non_blocking=True)
