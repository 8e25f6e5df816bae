"""Device, precision and number of loaders that "auto" resolves to, with faked devices."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.helpers.one_run import job

import levelfield as lf
from levelfield.config import EngineSpec
from levelfield.core.errors import UsageError
from levelfield.data import FileImages, MemoryImages
from levelfield.protocol import resolve_experiment
from levelfield.train import _devices, _precision, choose_device, choose_loaders, choose_precision

FILES = FileImages(".", [])
IN_MEMORY = MemoryImages(np.zeros((1, 1, 2, 2), dtype=np.uint8))


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"), [(True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")]
)
def test_auto_takes_the_first_device_that_is_there(
    cuda: bool, mps: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert choose_device("auto") == expected


@pytest.mark.parametrize("wanted", ["cuda", "cuda:1", "mps", "gpu", ""])
def test_a_device_that_is_not_there_is_one_clear_line(wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UsageError, match=rf'^engine.device "{wanted}".* use auto') as caught:
        choose_device(wanted)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("engine", "where", "cores", "expected"),
    [
        ({"loaders": 3}, ("cpu", IN_MEMORY), 2, 3),
        ({"loaders": 0}, ("cuda", FILES), 16, 0),
        ({}, ("cuda", IN_MEMORY), 16, 0),
        ({}, ("cpu", FILES), 2, 1),
        ({"workers": 2}, ("cpu", FILES), 2, 0),
        ({"workers": 0, "threads": 4}, ("cpu", FILES), 8, 4),
        ({"workers": 2}, ("cuda", FILES), 8, 3),
        ({}, ("cuda", FILES), 1, 1),
        ({}, ("cuda", FILES), 64, 8),
    ],
)
def test_auto_gives_a_run_the_cores_that_are_free(
    engine: dict[str, Any],
    where: tuple[str, Any],
    cores: int,
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_devices, "available_cores", lambda: cores)
    device, images = where
    assert choose_loaders(EngineSpec(**engine), images, device=device) == expected


@pytest.mark.parametrize(
    ("device", "supported", "works", "expected"),
    [
        ("cuda", True, None, "bfloat16"),
        ("cuda", False, None, "float16"),
        ("mps", None, None, "float32"),
        ("cpu", True, True, "bfloat16"),
        ("cpu", True, False, "float32"),
        ("cpu", False, True, "float32"),
    ],
)
def test_auto_takes_the_precision_that_the_device_supports(
    device: str, supported: bool, works: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: supported)
    monkeypatch.setattr(_precision, "cpu_reports_bfloat16", lambda: supported)
    monkeypatch.setattr(_precision, "bfloat16_works", lambda: works)
    assert choose_precision("auto", device) == expected


def test_a_cpu_that_crashes_on_bfloat16_is_tested_once_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path))
    asked = []

    def illegal_instruction(command: list[str], **_: Any) -> Any:
        asked.append(command)
        return SimpleNamespace(returncode=-4)

    monkeypatch.setattr(subprocess, "run", illegal_instruction)
    for _ in range(2):
        with pytest.raises(UsageError, match=r"^training.precision bfloat16 crashes .* use float32 or auto"):
            choose_precision("bfloat16", "cpu")
    assert len(asked) == 1
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")  # counts as another machine
    with pytest.raises(UsageError):
        choose_precision("bfloat16", "cpu")
    assert len(asked) == 2


@pytest.mark.slow
def test_the_probe_is_a_program_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch computes bfloat16 also on a CPU without instructions for it."""
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path))
    if _precision.cpu_reports_bfloat16():
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    assert _precision.bfloat16_works()
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("tested twice"))
    assert _precision.bfloat16_works()


def test_auto_is_resolved_before_the_digest_is_computed(
    tiny: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest and the record of a run hold the resolved precision, not "auto"."""
    monkeypatch.setattr(_precision, "cpu_reports_bfloat16", lambda: False)
    plain, auto = (
        job({**tiny, "training": {**tiny["training"], "precision": precision}}, Path("x")).spec
        for precision in ("float32", "auto")
    )
    assert plain.run_id == auto.run_id and auto.training.precision == "float32"


def test_engine_settings_change_no_name(tiny: dict[str, Any]) -> None:
    plain = job(tiny, Path("x")).spec
    engine = {"workers": 0, "loaders": 2, "device": "cpu"}
    assert job({**tiny, "engine": engine}, Path("x")).spec.run_id == plain.run_id


def test_the_first_algorithm_is_left_out_of_names(tiny: dict[str, Any]) -> None:
    images = job(tiny, Path("x")).spec
    features = job({**tiny, "trunk": {**tiny["trunk"], "mode": "frozen"}}, Path("x")).spec
    assert images.model_dump()["algorithm"] == 2
    assert "algorithm" not in features.model_dump() and "algorithm" not in features.model_dump_json()
    assert type(features).model_validate_json(features.model_dump_json()) == features


def test_an_unknown_number_of_loaders_is_one_clear_line(tiny: dict[str, Any]) -> None:
    for wrong in (-1, "many", 1.5):
        with pytest.raises(UsageError, match=r"engine\.loaders"):
            resolve_experiment(lf.Experiment.build(**{**tiny, "engine": {"loaders": wrong}}))
