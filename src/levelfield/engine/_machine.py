"""What this machine has to offer: cores, GPUs; and how many runs at once that makes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from levelfield.config import EngineSpec
from levelfield.errors import UsageError

CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def cores() -> int:
    """The cores that this process may use: fewer than the machine has, in a container or under Slurm.

    Example:
        >>> cores() >= 1
        True
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = CGROUP_QUOTA.read_text().split()
        bound = min(bound, max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # no control group, or one without a quota ("max")
        pass
    return bound


def gpus() -> list[str]:
    """The names by which CUDA_VISIBLE_DEVICES knows the GPUs that this process may use."""
    import torch

    count = torch.cuda.device_count()
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return visible[:count] if len(visible) >= count > 0 else [str(number) for number in range(count)]


def chosen_device(device: str) -> str:
    """What ``engine.device: auto`` comes to here; any other device as it is.

    Example:
        >>> chosen_device("cpu")
        'cpu'
    """
    if device != "auto":
        return device
    return "cuda" if gpus() else "cpu"


def worker_count(workers: int | str, *, threads: int, device: str, runs_per_gpu: int = 1) -> int:
    """How many runs go on at once: as asked, or with ``auto`` as many as the cores or GPUs allow.

    Example:
        >>> worker_count(3, threads=1, device="cpu")
        3
    """
    if not _hands_out(device):
        return max(1, cores() // threads) if isinstance(workers, str) else workers
    room = len(gpus()) * runs_per_gpu
    if room == 0:
        raise UsageError(f'engine.device is "{device}", but there is no GPU here; set it to cpu or auto')
    if isinstance(workers, str):
        return room
    if workers > room:
        raise UsageError(
            f"engine.workers is {workers}, but the {len(gpus())} GPUs here take {runs_per_gpu} runs each; "
            f"set it to {room} or auto, or raise engine.runs_per_gpu"
        )
    return workers


def workers_of(spec: EngineSpec) -> int:
    """How many runs go on at once with the engine that an experiment asks for, as far as that is known here.

    Example:
        >>> workers_of(EngineSpec(workers=2))
        2
    """
    if spec.name != "local":
        return cores() if isinstance(spec.workers, str) else spec.workers
    per_gpu = spec.options.get("runs_per_gpu", 1)
    return worker_count(spec.workers, threads=spec.threads, device=spec.device, runs_per_gpu=per_gpu)


def gpu_of_each(workers: int, *, device: str) -> Sequence[str | None]:
    """Which GPU each worker sees: they are handed out in turns. None where a worker sees them all."""
    if not _hands_out(device) or workers == 0:
        return [None] * workers
    names = gpus()
    return [names[number % len(names)] for number in range(workers)]


def _hands_out(device: str) -> bool:
    """Whether GPUs are handed out: not where the user names one, such as "cuda:1"."""
    return chosen_device(device) == "cuda"
