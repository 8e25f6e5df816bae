"""``levelfield doctor --gpu``: a report on one device that anyone can attach to an issue."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from levelfield.api.doctor import DoctorCheck
from levelfield.core.files import write_json

# Settings of one fine-tuning step: name, and values of `training`.
VARIANTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("float32", {}),
    ("bfloat16", {"precision": "bfloat16"}),
    ("float16", {"precision": "float16"}),
    ("float32, chunks of 16", {"chunk": 16}),
    ("float32, compiled", {"compile": True}),
    ("bfloat16, compiled", {"precision": "bfloat16", "compile": True}),
    ("float16, compiled", {"precision": "float16", "compile": True}),
)
CLASSES, IMAGES = 24, 8  # photos of the fine-tuning steps; each class has 8
PHOTO = 320  # pixels


def run_gpu_checks(
    file: Path, *, device: str = "auto", variants: Sequence[tuple[str, dict[str, Any]]] = VARIANTS
) -> Iterator[DoctorCheck]:
    """Yield the results of all checks of a device, and write them with all numbers to ``file``.

    The file is written anew after each check, so it holds all earlier ones if a driver ends the process.
    Without a GPU the CPU stands in for it; the report says so. A GPU trains ResNet50 on crops of 224 pixels,
    the CPU a small network on crops of 64; both read JPEG files.

    Args:
        file: JSON file to write.
        device: "auto" for the first GPU, or a name such as "cuda:1" or "cpu".
        variants: Settings of the fine-tuning steps to measure.
    """
    import torch

    from levelfield.train import choose_device, device_check

    chosen = choose_device(device)
    report: dict[str, Any] = {"device": chosen, "name": _device_name(chosen), "torch": torch.__version__}
    report |= {"cuda": torch.version.cuda, "system": platform.platform(), "is_gpu": chosen != "cpu"}
    report["tolerance"] = {
        "value": device_check.VALUE_TOLERANCE,
        "gradient": device_check.GRADIENT_TOLERANCE,
    }
    checks: list[DoctorCheck] = []
    with TemporaryDirectory() as folder:
        write_photos(Path(folder))
        for check, numbers in chain(
            [_device_check(chosen)],
            _comparisons(chosen),
            _steps(chosen, variants, folder),
            _attempt("input pipeline", lambda: _check_inputs(chosen, folder)),
            _attempt("exact resume", lambda: _check_resume(chosen, folder)),
        ):
            checks.append(check)
            report |= numbers
            write_json(file, report | {"checks": [asdict(check) for check in checks]})
            yield check
    yield DoctorCheck("report", "good", str(file), "attach this file to an issue if a check failed")


Result = tuple[DoctorCheck, dict[str, Any]]


def _attempt(what: str, run: Callable[[], Result]) -> Iterator[Result]:
    """Yield the result of a check; an error is a result too."""
    from levelfield.core.errors import UsageError

    try:
        yield run()
    except UsageError as error:
        yield DoctorCheck(what, "note", str(error)), {}
    except Exception as error:  # any error of a kernel or a compiler is a result of this check
        yield DoctorCheck(what, "bad", f"{type(error).__name__}: {error}"[:300]), {}


def write_photos(folder: Path) -> None:
    """Write JPEG files of random color patches, one folder per class."""
    import numpy as np
    from PIL import Image

    random = np.random.default_rng(0)
    for number in range(CLASSES * IMAGES):
        file = folder / f"class_{number // IMAGES:02}" / f"{number}.jpg"
        file.parent.mkdir(exist_ok=True)
        patches = Image.fromarray(random.integers(0, 256, (16, 16, 3), dtype=np.uint8))
        patches.resize((PHOTO, PHOTO), Image.Resampling.BICUBIC).save(file)


def _device_check(device: str) -> Result:
    if device == "cpu":
        remedy = "run it on a machine with a GPU to check that GPU"
        return DoctorCheck("device", "note", "no GPU: the CPU stands in for it", remedy), {}
    return DoctorCheck("device", "good", f"{device}: {_device_name(device)}"), {}


def _device_name(device: str) -> str:
    import torch

    return torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.processor() or device


def _comparisons(device: str) -> Iterator[Result]:
    from levelfield.train import device_check

    for what, found in (
        ("losses", list(device_check.compare_losses(device))),
        ("miners", list(device_check.compare_miners(device))),
    ):
        wrong = [each.name for each in found if not each.is_good]
        largest = max(each.value_error for each in found)
        text = (
            f"{len(found) - len(wrong)} of {len(found)} as on the CPU; largest relative error {largest:.1e}"
        )
        check = DoctorCheck(what, "bad" if wrong else "good", text, ", ".join(wrong))
        yield check, {what: [asdict(each) for each in found]}


def _steps(device: str, variants: Sequence[tuple[str, dict[str, Any]]], folder: str) -> Iterator[Result]:
    """Yield the speed and memory of one fine-tuning step for each variant."""
    from levelfield.train import bfloat16_works

    found: dict[str, Any] = {}
    for name, training in variants:
        if device == "cpu" and training.get("precision") == "bfloat16" and not bfloat16_works():
            text = "this CPU announces bfloat16, but a process that uses it dies (see `levelfield doctor`)"
            yield DoctorCheck(f"step, {name}", "note", text), {}
            continue
        yield from _attempt(f"step, {name}", partial(_measure_step, name, training, device, folder, found))


def _measure_step(
    name: str, training: dict[str, Any], device: str, folder: str, found: dict[str, Any]
) -> Result:
    """Measure a step and add it to those that were ``found`` before."""
    import torch

    from levelfield.train import measure_speed

    is_cuda = device.startswith("cuda")
    if is_cuda:
        torch.cuda.reset_peak_memory_stats(device)
    speed = measure_speed(*_run(device, training, folder))
    peak = torch.cuda.max_memory_allocated(device) if is_cuda else None
    found[name] = {"step_seconds": speed.step, "image_seconds": speed.image, "peak_bytes": peak}
    memory = "" if peak is None else f", {peak / 1e6:.0f} MB at most"
    return DoctorCheck(f"step, {name}", "good", f"{1e3 * speed.step:.1f} ms{memory}"), {"steps": found}


def _check_inputs(device: str, folder: str) -> Result:
    from levelfield.train import device_check, measure_speed

    spec, resources = _run(device, {}, folder)
    step = measure_speed(spec, resources).step
    rate, share = device_check.measure_inputs(spec, resources, step=step)
    text = f"{rate:.0f} images/s of JPEG files; a step waits {share:.0%} of its time"
    return DoctorCheck("input pipeline", "good", text), {"images_per_second": rate, "waiting_share": share}


def _check_resume(device: str, folder: str) -> Result:
    from levelfield.train import device_check

    same = device_check.resumes_exactly(*_run(device, {}, folder))
    text = "an interrupted run ends with the same bits" if same else "an interrupted run ends with other bits"
    return DoctorCheck("exact resume", "good" if same else "bad", text), {"exact_resume": same}


def _run(device: str, training: dict[str, Any], folder: str) -> tuple[Any, Any]:
    """Return the spec and resources of a short run on the photos of ``folder``."""
    from levelfield.config import Experiment
    from levelfield.protocol import resolve_experiment

    resolved = resolve_experiment(Experiment.build(**experiment_values(device, training, folder)))
    return resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0), resolved.resources


def experiment_values(device: str, training: dict[str, Any], folder: str) -> dict[str, Any]:
    """Return the values of an experiment that trains all layers of a network on the photos of ``folder``."""
    small = device == "cpu"
    trunk: dict[str, Any] = {"name": "conv4", "width": 16} if small else {"name": "resnet50"}
    trunk |= {"weights": "none", "mode": "finetune", "freeze_bn": True}  # chunks need frozen BatchNorm
    return {
        "name": "gpu-check",
        "dataset": {"name": "folder", "root": folder},
        "split": {"name": "class_disjoint", "folds": 4},
        "trunk": trunk,
        "transform": {"name": "base", **({"size": 64, "resize": 72} if small else {})},
        "batch": {"size": 32, "samples_per_class": 4},
        "optimizer": {"name": "adam", "lr": 1e-5},
        "methods": [{"name": "multi_similarity"}],
        "hyperparameters": "defaults",
        "training": {"iterations_per_epoch": 4, "max_epochs": 2, "evaluate_every": 1, **training},
        "engine": {"workers": 0, "device": device},
    }
