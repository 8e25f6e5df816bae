"""Jobs that go wrong, or slowly, in a module that worker processes can import."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path


def leave(code: int) -> None:
    """End the process as a script does."""
    sys.exit(code)


def be_killed(_: int) -> None:
    """End the process as a lack of memory does."""
    os.kill(os.getpid(), signal.SIGKILL)


def be_killed_if_negative(number: int) -> int:
    """End the process for some numbers only."""
    if number < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def be_killed_the_first_time(folder: Path) -> int:
    """Kill the process until the third attempt; each leaves a file."""
    attempts = len(list(folder.iterdir()))
    (folder / str(attempts)).touch()
    if attempts < 2:
        print("no memory left, says the code", file=sys.stderr)
        os.kill(os.getpid(), signal.SIGKILL)
    return attempts


def crash_if_negative(number: int) -> int:
    """Read from where nothing is."""
    return ctypes.string_at(0)[0] if number < 0 else number


def die_of(kind: str) -> str:
    """Die as the word says, or live."""
    match kind:
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segmentation fault":
            ctypes.string_at(0)
        case "import error":
            import a_module_that_nobody_has  # type: ignore[import-not-found]  # noqa: F401
        case "no memory":
            raise MemoryError("no memory left")
        case "no memory for a tensor":
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 TB")
    return kind


def visible_gpu(seconds: float) -> str:
    """Which GPU this process was given."""
    time.sleep(seconds)
    return os.environ.get("CUDA_VISIBLE_DEVICES", "")


def whisper(number: int) -> int:
    """Say something on standard error."""
    print(f"a warning about {number}", file=sys.stderr)
    return number


def count_up(total: int) -> int:
    """A long job that says how far it is."""
    from levelfield import engine

    for done in range(total):
        engine.report(done, total)
        time.sleep(0.2)
    return total
