"""Precision that a device supports in practice.

A CPU may report instructions that crash the process: some virtual machines do so with bfloat16. A test
process checks it once per machine, and the result is cached.
"""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
from pathlib import Path

import torch

from levelfield.core import files
from levelfield.core.errors import RunError, UsageError
from levelfield.records import digest

# One product and one convolution, forward and backward, large enough to use the special instructions.
_PROBE = """
import torch
torch.set_num_threads(1)
with torch.autocast("cpu", dtype=torch.bfloat16):
    x = torch.ones(64, 64, requires_grad=True)
    (x @ x).sum().backward()
    images = torch.ones(4, 32, 16, 16, requires_grad=True)
    torch.nn.functional.conv2d(images, torch.ones(32, 32, 3, 3)).sum().backward()
assert float(x.grad[0, 0]) == 128.0
"""


def choose_precision(wanted: str, device: str) -> str:
    """Return the precision of forward passes; "auto" is the lowest that the device computes fast and safely.

    "auto" is bfloat16 on GPUs that have it and on CPUs whose bfloat16 instructions work, float16 on older
    GPUs, else float32.

    Example:
        >>> choose_precision("float32", "cpu")
        'float32'
    """
    kind = torch.device(device).type
    if wanted == "auto":
        if kind == "cuda":
            return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float16"
        return "bfloat16" if kind == "cpu" and cpu_reports_bfloat16() and bfloat16_works() else "float32"
    if wanted == "bfloat16" and kind == "cpu" and not bfloat16_works():
        raise UsageError(
            "training.precision bfloat16 crashes the process on this CPU, although the CPU reports it; use "
            "float32 or auto, or set the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE"
        )
    return wanted


def cpu_reports_bfloat16() -> bool:
    """Return True if the CPU reports bfloat16 instructions; without them it is slower than float32."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()) and (
        torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    )


def bfloat16_works() -> bool:
    """Return True if a process can compute in bfloat16 on this CPU; the result is cached."""
    file = files.cache_directory() / "bfloat16" / digest(_machine())
    with contextlib.suppress(OSError, UnicodeDecodeError):
        known = file.read_text(encoding="utf-8")
        if known in ("lives\n", "dies\n"):
            return known == "lives\n"
    try:
        done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False  # not cached: the machine may have been too busy
    works = done.returncode == 0
    with contextlib.suppress(OSError, RunError):  # without a cache it is tested again next time
        files.make_directory(file.parent)
        files.write_text(file, "lives\n" if works else "dies\n")
    return works


def _machine() -> dict[str, str]:
    """Return everything that the result depends on."""
    return {
        "processor": _processor(),
        "torch": torch.__version__,
        "host": platform.node(),
        "limit": os.environ.get("ONEDNN_MAX_CPU_ISA", ""),
    }


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            wanted = ("model name", "flags")
            found = [line for line in lines if line.startswith(wanted)]
        return digest(found[:2])
    except OSError:
        return platform.processor()
