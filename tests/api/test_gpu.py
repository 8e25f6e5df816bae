"""``levelfield doctor --gpu``, with the CPU as the device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.helpers.built_in import built_in_names

from levelfield import losses, miners
from levelfield.api import gpu
from levelfield.train import bfloat16_works, device_check


@pytest.mark.slow
def test_the_report_covers_every_loss_and_miner_and_says_that_there_is_no_gpu(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    checks = {
        check.what: check for check in gpu.run_gpu_checks(file, device="cpu", variants=gpu.VARIANTS[:2])
    }
    assert checks["device"].verdict == "note" and "the CPU stands in" in checks["device"].found
    assert not [check for check in checks.values() if check.verdict == "bad"]
    report = json.loads(file.read_text())
    assert not report["is_gpu"] and report["exact_resume"] is True
    assert [each["name"] for each in report["losses"]] == built_in_names(losses.registry)
    assert [each["name"] for each in report["miners"]] == built_in_names(miners.registry)
    assert report["images_per_second"] > 0 and 0 <= report["waiting_share"] <= 1
    assert set(report["steps"]) == ({"float32", "bfloat16"} if bfloat16_works() else {"float32"})
    assert checks["report"].found == str(file)


def test_a_wrong_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = device_check._loss_and_gradient

    def wrong(name: str, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        value, gradient = right(name, "cpu")
        if device == "cpu" or name not in ("triplet", "arcface"):
            return value, gradient
        if name == "arcface":
            raise RuntimeError("not implemented for this device")
        return value, 1.01 * gradient

    monkeypatch.setattr(device_check, "_loss_and_gradient", wrong)
    found = {each.name: each for each in device_check.compare_losses("other")}
    assert [name for name, each in found.items() if not each.is_good] == ["arcface", "triplet"]
    assert "not implemented" in found["arcface"].problem


def test_other_tuples_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        device_check, "_mined", lambda name, device: {(0, 1)} if device == "cpu" else {(0, 2)}
    )
    assert not any(each.is_good for each in device_check.compare_miners("other"))
