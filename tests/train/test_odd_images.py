"""Images that are constant, or not numbers, end a run with a reason; they never give a score in silence."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.one_run import job

from levelfield.core.errors import RunError
from levelfield.data import MemoryImages
from levelfield.train import run_job


@pytest.mark.parametrize(("value", "where"), [(math.nan, "all"), (math.nan, "one"), (-math.inf, "one")])
@pytest.mark.parametrize("mode", ["finetune", "frozen"])
def test_images_that_are_not_finite(
    value: float,
    where: str,
    mode: str,
    *,
    tiny: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = MemoryImages.read

    def read(self: MemoryImages, row: int) -> torch.Tensor:
        image = real(self, row).float()
        return torch.full_like(image, value) if where == "all" or row == 3 else image

    monkeypatch.setattr(MemoryImages, "read", read)
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("levelfield.train._setup._features", {})
    wanted = job(tiny, tmp_path / "run", trunk=tiny["trunk"] | {"mode": mode})
    try:
        result = run_job(wanted)
    except RunError as error:  # of the cached features
        assert "not finite" in str(error)
    else:
        assert result.status == "diverged", result


@pytest.mark.parametrize("mode", ["finetune", "frozen"])
def test_constant_images_are_called_a_collapse(
    mode: str, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = MemoryImages.read
    monkeypatch.setattr(MemoryImages, "read", lambda self, row: torch.full_like(real(self, row), 7))
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("levelfield.train._setup._features", {})
    result = run_job(job(tiny, tmp_path / "run", trunk=tiny["trunk"] | {"mode": mode}))
    assert result.status == "diverged" or result.collapse, result
