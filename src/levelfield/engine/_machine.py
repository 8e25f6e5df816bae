"""Number of workers and their devices, from the cores and GPUs of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence

from levelfield.config import EngineSpec
from levelfield.core import devices
from levelfield.core.errors import UsageError


def gpus() -> list[str]:
    """Return the GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    count = torch.cuda.device_count()
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return visible[:count] if len(visible) >= count > 0 else [str(number) for number in range(count)]


def worker_device(spec: EngineSpec) -> str:
    """Return the device on which the workers of an experiment compute.

    On a Ray cluster, "auto" is "cuda" if the experiment asks for GPUs, else "cpu".

    Example:
        >>> worker_device(EngineSpec(device="cpu"))
        'cpu'
    """
    if spec.name != "ray":
        return devices.choose_device(spec.device)
    if spec.device == "auto":  # the driver may lack the devices of the cluster
        return "cuda" if spec.options.get("gpus") else "cpu"
    return spec.device


def local_worker_count(workers: int | str, *, threads: int, device: str, runs_per_gpu: int = 1) -> int:
    """Return the number of local workers; "auto" gives as many as the cores or GPUs allow.

    Raises:
        UsageError: There are more workers than the GPUs take.

    Example:
        >>> local_worker_count(3, threads=1, device="cpu")
        3
    """
    if not _assigns_gpus(device):
        return max(1, devices.available_cores() // threads) if isinstance(workers, str) else workers
    most = len(gpus()) * runs_per_gpu
    if isinstance(workers, str):
        return most
    if workers > most:
        raise UsageError(
            f"engine.workers is {workers}, but the {len(gpus())} GPUs here take {runs_per_gpu} runs each; "
            f"set it to {most} or auto, or raise engine.runs_per_gpu"
        )
    return workers


def worker_count(spec: EngineSpec) -> int:
    """Return the number of runs that execute at once; an estimate for engines other than ``local``.

    Example:
        >>> worker_count(EngineSpec(workers=2))
        2
    """
    if spec.name != "local":
        return devices.available_cores() if isinstance(spec.workers, str) else spec.workers
    per_gpu = spec.options.get("runs_per_gpu", 1)
    return local_worker_count(spec.workers, threads=spec.threads, device=spec.device, runs_per_gpu=per_gpu)


def assign_gpus(workers: int, *, device: str) -> Sequence[str | None]:
    """Return the GPU that each worker sees, in turns; None if it sees all of them."""
    if not _assigns_gpus(device) or workers == 0:
        return [None] * workers
    names = gpus()
    return [names[number % len(names)] for number in range(workers)]


def _assigns_gpus(device: str) -> bool:
    """Return True unless the runs use the CPU or the user names one GPU, such as "cuda:1"."""
    return devices.choose_device(device) == "cuda"
