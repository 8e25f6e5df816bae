"""``levelfield doctor --gpu``, with the CPU as the device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.built_in import built_in_names

from levelfield import losses, miners
from levelfield.api import gpu
from levelfield.config import Experiment
from levelfield.protocol import resolve_experiment
from levelfield.train import bfloat16_works, device_check

QUICK = [
    (name, training)
    for name, training in gpu.VARIANTS
    if name in ("float32", "bfloat16", "float32, chunks of 16")
]


def test_every_precision_is_compiled_and_not() -> None:
    tried = {(each.get("precision", "float32"), each.get("compile", False)) for _, each in gpu.VARIANTS}
    assert tried == {(p, c) for p in ("float32", "float16", "bfloat16") for c in (False, True)}


@pytest.mark.parametrize("training", [training for _, training in gpu.VARIANTS])
def test_what_a_gpu_trains_resolves(training: dict[str, Any], tmp_path: Path) -> None:
    gpu.write_photos(tmp_path)
    values = gpu.experiment_values("cuda", training, str(tmp_path))
    if training.get("precision") != "bfloat16" or bfloat16_works():
        values["engine"]["device"] = "cpu"
        spec = resolve_experiment(Experiment.build(**values))
        assert spec.experiment.trunk.name == "resnet50"


def test_a_broken_check_is_a_result_and_the_file_has_all_earlier_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(device_check, "resumes_exactly", fail)
    monkeypatch.setattr(device_check, "measure_inputs", lambda *_, **__: (1.0, 0.0))
    monkeypatch.setattr(gpu, "_comparisons", lambda device: iter(()))
    file = tmp_path / "gpu.json"
    seen = []
    for check in gpu.run_gpu_checks(file, device="cpu", variants=gpu.VARIANTS[:1]):
        written = [each["what"] for each in json.loads(file.read_text())["checks"]]
        seen.append(check)
        assert written == [each.what for each in seen if each.what != "report"]
    assert [each.verdict for each in seen] == ["note", "good", "good", "bad", "good"]
    assert "no kernel image" in seen[-2].found


@pytest.mark.slow
def test_the_report_covers_every_loss_and_miner_and_says_that_there_is_no_gpu(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    checks = {check.what: check for check in gpu.run_gpu_checks(file, device="cpu", variants=QUICK)}
    assert checks["device"].verdict == "note" and "the CPU stands in" in checks["device"].found
    assert not [check for check in checks.values() if check.verdict == "bad"]
    report = json.loads(file.read_text())
    assert not report["is_gpu"] and report["exact_resume"] is True
    assert [each["name"] for each in report["losses"]] == built_in_names(losses.registry)
    assert [each["name"] for each in report["miners"]] == built_in_names(miners.registry)
    assert report["images_per_second"] > 0 and 0 <= report["waiting_share"] <= 1
    works = {"bfloat16"} if bfloat16_works() else set()
    assert set(report["steps"]) == {"float32", "float32, chunks of 16"} | works
    assert report["tolerance"]["gradient"] > 0
    assert checks["report"].found == str(file)


def test_a_wrong_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = device_check._loss_and_gradients

    def wrong(name: str, device: str) -> tuple[torch.Tensor, list[torch.Tensor]]:
        value, gradients = right(name, "cpu")
        if device == "cpu" or name not in ("triplet", "arcface", "proxy_anchor"):
            return value, gradients
        if name == "arcface":
            raise RuntimeError("not implemented for this device")
        return value, [*gradients[:-1], 1.01 * gradients[-1]]  # of proxy_anchor, the gradient of the proxies

    monkeypatch.setattr(device_check, "_loss_and_gradients", wrong)
    found = {each.name: each for each in device_check.compare_losses("other")}
    assert [name for name, each in found.items() if not each.is_good] == [
        "arcface",
        "proxy_anchor",
        "triplet",
    ]
    assert "not implemented" in found["arcface"].problem


def test_other_tuples_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        device_check, "_mined", lambda name, device: {(0, 1)} if device == "cpu" else {(0, 2)}
    )
    assert not any(each.is_good for each in device_check.compare_miners("other"))
