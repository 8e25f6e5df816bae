"""Where a run computes: the device, and how many processes feed it."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

from levelfield.config import EngineSpec
from levelfield.data import Images, MemoryImages
from levelfield.errors import UsageError

CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")
MOST_LOADERS = 8  # more than a disk or a GPU can use, on most machines


def choose_device(wanted: str) -> str:
    """The device to compute on; "auto" takes CUDA, else Apple's GPU, else the CPU.

    Example:
        >>> choose_device("cpu")
        'cpu'
    """
    if wanted == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        kind = torch.device(wanted).type
    except RuntimeError as error:
        raise UsageError(
            f'engine.device "{wanted}" is no device; use auto, cpu, cuda, cuda:0, mps'
        ) from error
    missing = (kind == "cuda" and not torch.cuda.is_available()) or (
        kind == "mps" and not torch.backends.mps.is_available()
    )
    if missing:
        raise UsageError(
            f'engine.device "{wanted}": PyTorch {torch.__version__} finds no such device here; use auto or '
            "cpu, or install a driver and a PyTorch built for it"
        )
    return wanted


def choose_loaders(engine: EngineSpec, images: Images, *, device: str) -> int:
    """How many processes read pictures for each run.

    "auto" gives every run the cores that its threads leave free, at most ``MOST_LOADERS``; on a GPU at least
    one. Images that lie in memory need none.
    """
    if engine.loaders != "auto":
        return engine.loaders
    if isinstance(images, MemoryImages):
        return 0
    runs = engine.workers if isinstance(engine.workers, int) else available_cores() // engine.threads
    cores = available_cores() // max(1, runs)
    if torch.device(device).type == "cpu":
        return max(0, min(cores - engine.threads, MOST_LOADERS))
    return max(1, min(cores - 1, MOST_LOADERS))


def available_cores() -> int:
    """The cores that this process may use: fewer than the machine has, in a container or under Slurm."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = CGROUP_QUOTA.read_text().split()
        return min(bound, max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # no control group, or one without a quota ("max")
        return bound


def to_device(batch: Tensor, device: str) -> Tensor:
    """A batch on ``device``; to a CUDA device it is copied while the CPU goes on, out of pinned memory."""
    if device == "cpu":
        return batch
    if torch.device(device).type != "cuda" or batch.is_cuda:
        return batch.to(device)
    return batch.pin_memory().to(device, non_blocking=True)
