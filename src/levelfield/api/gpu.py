"""``levelfield doctor --gpu``: a report on one device that anyone can attach to an issue."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
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
)


def run_gpu_checks(
    file: Path, *, device: str = "auto", variants: Sequence[tuple[str, dict[str, Any]]] = VARIANTS
) -> Iterator[DoctorCheck]:
    """Yield the results of all checks of a device, and write them with all numbers to ``file`` at the end.

    Without a GPU the CPU stands in for it; the report says so.

    Args:
        file: JSON file to write.
        device: "auto" for the first GPU, or a name such as "cuda:1" or "cpu".
        variants: Settings of the fine-tuning steps to measure.
    """
    import torch

    from levelfield.train import choose_device

    chosen = choose_device(device)
    report: dict[str, Any] = {"device": chosen, "name": _device_name(chosen), "torch": torch.__version__}
    report |= {"cuda": torch.version.cuda, "system": platform.platform(), "is_gpu": chosen != "cpu"}
    checks: list[DoctorCheck] = []
    for check, numbers in (
        _device_check(chosen),
        *_comparisons(chosen),
        *_steps(chosen, variants),
        *_run_checks(chosen),
    ):
        checks.append(check)
        report |= numbers
        yield check
    write_json(file, report | {"checks": [asdict(check) for check in checks]})
    yield DoctorCheck("report", "good", str(file), "attach this file to an issue if a check failed")


Result = tuple[DoctorCheck, dict[str, Any]]


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


def _steps(device: str, variants: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[Result]:
    """Yield the speed and memory of one fine-tuning step for each variant."""
    import torch

    from levelfield.core.errors import UsageError
    from levelfield.train import bfloat16_works, measure_speed

    found: dict[str, Any] = {}
    for name, training in variants:
        if device == "cpu" and training.get("precision") == "bfloat16" and not bfloat16_works():
            text = "this CPU announces bfloat16, but a process that uses it dies (see `levelfield doctor`)"
            yield DoctorCheck(f"step, {name}", "note", text), {}
            continue
        if device.startswith("cuda"):
            torch.cuda.reset_peak_memory_stats(device)
        try:
            speed = measure_speed(*_run(device, training))
        except UsageError as error:
            yield DoctorCheck(f"step, {name}", "note", str(error)), {}
            continue
        except Exception as error:  # any error of a kernel or a compiler is a result of this check
            yield DoctorCheck(f"step, {name}", "bad", f"{type(error).__name__}: {error}"[:300]), {}
            continue
        peak = torch.cuda.max_memory_allocated(device) if device.startswith("cuda") else None
        found[name] = {"step_seconds": speed.step, "image_seconds": speed.image, "peak_bytes": peak}
        memory = "" if peak is None else f", {peak / 1e6:.0f} MB at most"
        yield DoctorCheck(f"step, {name}", "good", f"{1e3 * speed.step:.1f} ms{memory}"), {"steps": found}


def _run_checks(device: str) -> Iterator[Result]:
    """Yield the input pipeline and the exact resume."""
    from levelfield.train import device_check, measure_speed

    spec, resources = _run(device, {})
    step = measure_speed(spec, resources).step
    rate, share = device_check.measure_inputs(spec, resources, step=step)
    text = f"{rate:.0f} images/s; a step waits {share:.0%} of its time"
    yield DoctorCheck("input pipeline", "good", text), {"images_per_second": rate, "waiting_share": share}
    same = device_check.resumes_exactly(spec, resources)
    text = "an interrupted run ends with the same bits" if same else "an interrupted run ends with other bits"
    yield DoctorCheck("exact resume", "good" if same else "bad", text), {"exact_resume": same}


def _run(device: str, training: dict[str, Any]) -> tuple[Any, Any]:
    """Return the spec and resources of a short run on Glyphs."""
    from levelfield.config import Experiment
    from levelfield.protocol import resolve_experiment

    experiment = Experiment.build(
        name="gpu-check",
        preset="demo",
        dataset={"name": "glyphs", "size": 32, "samples_per_class": 8},
        methods=[{"name": "multi_similarity"}],
        hyperparameters="defaults",
        training={"iterations_per_epoch": 4, "max_epochs": 2, "evaluate_every": 1, **training},
        engine={"workers": 0, "device": device},
    )
    resolved = resolve_experiment(experiment)
    spec = resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0)
    return spec, resolved.resources
