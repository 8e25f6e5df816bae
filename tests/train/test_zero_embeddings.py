"""An embedding of zeros has no direction: it ends a run or a rerun with a reason, never the experiment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.one_run import job

import levelfield as lf
from levelfield.analysis import read_comparison
from levelfield.protocol.confirm import _score
from levelfield.train import _loop, run_job
from levelfield.train._embed import embed as embed_rows

pytestmark = pytest.mark.slow


def with_zeros(embed: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def zeroed(*arguments: Any, **options: Any) -> torch.Tensor:
        found = embed(*arguments, **options).clone()
        found[1] = 0
        return found

    return zeroed


@pytest.mark.parametrize("normalize", [True, False])
def test_in_validation_the_run_ends_with_the_reason(
    normalize: bool, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a message about rows and euclidean distance stopped the whole experiment."""
    monkeypatch.setattr(_loop, "embed", with_zeros(embed_rows))
    changes = {} if normalize else {"head": tiny["head"] | {"normalize": False}}
    result = run_job(job(tiny, tmp_path / "run", **changes))
    assert result.status == "diverged"
    assert "are all zeros and have no direction, in the validation of epoch 0" in result.reason


def test_in_the_test_set_the_rerun_ends_with_the_reason(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def zeroed_once(*arguments: Any, **options: Any) -> torch.Tensor:
        calls.append(1)
        return (with_zeros(embed_rows) if len(calls) == 1 else embed_rows)(*arguments, **options)

    monkeypatch.setattr(_score, "embed", zeroed_once)
    tiny |= {"methods": ["triplet"], "search": {"trials": 1, "sampler": "random"}, "engine": {"workers": 0}}
    comparison = read_comparison(
        lf.run(tiny | {"confirm": {"reruns": 2, "gallery": 0}}, tmp_path / "out").path
    )
    failed = [reason for result in comparison.results for reason in result.failed]
    assert len(failed) == 1
    assert "all zeros and have no direction, of the test images" in failed[0]
