"""What this machine has to offer: cores, GPUs; and how many runs at once that makes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from levelfield.config import EngineSpec
from levelfield.errors import UsageError


def gpus() -> list[str]:
    """The names by which CUDA_VISIBLE_DEVICES knows the GPUs that this process may use."""
    import torch

    count = torch.cuda.device_count()
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return visible[:count] if len(visible) >= count > 0 else [str(number) for number in range(count)]


def device_of(spec: EngineSpec) -> str:
    """Where the runs of an experiment compute; "auto" is what there is on the machines that carry them out.

    Example:
        >>> device_of(EngineSpec(device="cpu"))
        'cpu'
    """
    from levelfield.train import choose_device

    if spec.name != "ray":
        return choose_device(spec.device)
    if spec.device == "auto":  # the driver need not have what the cluster has
        return "cuda" if spec.options.get("gpus") else "cpu"
    return spec.device


def worker_count(workers: int | str, *, threads: int, device: str, runs_per_gpu: int = 1) -> int:
    """How many runs go on at once: as asked, or with ``auto`` as many as the cores or GPUs allow.

    Example:
        >>> worker_count(3, threads=1, device="cpu")
        3
    """
    from levelfield.train import available_cores

    if not _hands_out(device):
        return max(1, available_cores() // threads) if isinstance(workers, str) else workers
    room = len(gpus()) * runs_per_gpu
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
        from levelfield.train import available_cores

        return available_cores() if isinstance(spec.workers, str) else spec.workers
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
    from levelfield.train import choose_device

    return choose_device(device) == "cuda"
