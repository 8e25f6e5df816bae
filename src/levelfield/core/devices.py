"""Compute devices and CPU cores of this machine."""

from __future__ import annotations

import os
from pathlib import Path

from levelfield.core.errors import UsageError

CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def choose_device(wanted: str) -> str:
    """Return the device to compute on; "auto" takes CUDA, else Apple's GPU, else the CPU.

    Raises:
        UsageError: ``wanted`` is not a device, or PyTorch does not find it.

    Example:
        >>> choose_device("cpu")
        'cpu'
    """
    import torch

    if wanted == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        kind = torch.device(wanted).type
    except RuntimeError as error:
        raise UsageError(
            f'engine.device "{wanted}" is not a device; use auto, cpu, cuda, cuda:0 or mps'
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


def available_cores() -> int:
    """Return the number of CPU cores that this process may use.

    It is smaller than the number of cores of the machine in a container and under Slurm.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = CGROUP_QUOTA.read_text().split()
        return min(bound, max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # no control group, or one without a quota ("max")
        return bound
