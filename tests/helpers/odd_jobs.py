"""Jobs that fail or are slow, in a module that worker processes can import."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path


def exit_with(code: int) -> None:
    """Call sys.exit."""
    sys.exit(code)


def be_killed(_: int) -> None:
    """Kill the process, as the system does when memory is short."""
    os.kill(os.getpid(), signal.SIGKILL)


def be_killed_if_negative(number: int) -> int:
    """Kill the process for negative numbers only."""
    if number < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def be_killed_the_first_time(directory: Path) -> int:
    """Kill the process until the third attempt; each attempt creates a file."""
    attempts = len(list(directory.iterdir()))
    (directory / str(attempts)).touch()
    if attempts < 2:
        print("no memory left", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGKILL)
    return attempts


def crash_if_negative(number: int) -> int:
    """Crash with a segmentation fault for negative numbers."""
    return ctypes.string_at(0)[0] if number < 0 else number


def die_of(kind: str) -> str:
    """End the process in the way that ``kind`` names, or return it."""
    match kind:
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segmentation fault":
            ctypes.string_at(0)
        case "import error":
            import a_missing_module  # type: ignore[import-not-found]  # noqa: F401 - it fails
        case "no memory":
            raise MemoryError("no memory left")
        case "no memory for a tensor":
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 TB")
    return kind


def visible_gpu(meeting: Path) -> str:
    """Return the GPU that this process sees, once four processes have come to the directory ``meeting``."""
    (meeting / str(os.getpid())).touch()
    while len(list(meeting.iterdir())) < 4:
        time.sleep(0.01)
    return os.environ.get("CUDA_VISIBLE_DEVICES", "")


def write_to_stderr(number: int) -> int:
    """Write a line to standard error."""
    print(f"a warning about {number}", file=sys.stderr)
    return number


def count_up(total: int) -> int:
    """Report each step."""
    from levelfield import engine

    for done in range(total):
        engine.report_progress(done, total)
    return total


def fail_with_loaders(row: int) -> None:
    """Read a batch by a loader process, then fail; the error's traceback keeps the inputs alive."""
    from functools import partial

    import numpy as np

    from levelfield.core.errors import RunError
    from levelfield.data import MemoryImages, transforms
    from levelfield.train import ImageInputs

    images = MemoryImages(np.zeros((2, 1, 4, 4), dtype=np.uint8))
    inputs = ImageInputs(images, partial(transforms.create, "none"), loaders=1)
    next(inputs.evaluate([np.array([row]), np.array([row])]))
    raise RunError("the run failed")
