"""Which precision a device can really compute in.

A processor may announce instructions that kill the process that uses them: some virtual machines do so with
bfloat16. So the question is put to a process of its own, once per machine, and the answer is kept.
"""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
from pathlib import Path

import torch

from levelfield import files
from levelfield.data import cache_folder
from levelfield.errors import RunError, UsageError
from levelfield.records import digest

# One product and one convolution, forward and backward, of sizes that reach the special instructions.
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
    """The precision of forward passes; "auto" takes the lowest that the device computes quickly and safely.

    That is bfloat16 on GPUs that have it and on CPUs that announce instructions for it and survive them,
    float16 on older GPUs, else float32.

    Example:
        >>> choose_precision("float32", "cpu")
        'float32'
    """
    kind = torch.device(device).type
    if wanted == "auto":
        if kind == "cuda":
            return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float16"
        return "bfloat16" if kind == "cpu" and announces_bfloat16() and survives_bfloat16() else "float32"
    if wanted == "bfloat16" and kind == "cpu" and not survives_bfloat16():
        raise UsageError(
            "training.precision bfloat16 kills the process on this CPU, although the CPU announces it; use "
            "float32 or auto, or set the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE"
        )
    return wanted


def announces_bfloat16() -> bool:
    """Whether the CPU says that it has instructions for bfloat16; without them it is slower than float32."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported()) and (
        torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    )


def survives_bfloat16() -> bool:
    """Whether a process that computes in bfloat16 on this CPU lives on; asked once, and remembered."""
    file = cache_folder() / "bfloat16" / digest(_machine())
    with contextlib.suppress(OSError, UnicodeDecodeError):
        known = file.read_text(encoding="utf-8")
        if known in ("lives\n", "dies\n"):
            return known == "lives\n"
    try:
        done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False  # this time; a machine that was too busy is asked again
    survives = done.returncode == 0
    with contextlib.suppress(OSError, RunError):  # what cannot be kept is asked again next time
        files.make_folder(file.parent)
        files.write_text(file, "lives\n" if survives else "dies\n")
    return survives


def _machine() -> dict[str, str]:
    """What the answer depends on."""
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
