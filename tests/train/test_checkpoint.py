"""A damaged state is renamed and the run starts again; damaged weights are an error."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.one_run import files, job

from levelfield.core.errors import RunError
from levelfield.train import checkpoint, run_job


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9])
def test_a_run_with_a_truncated_state_starts_again_and_ends_with_the_same_bits(
    kept: float,
    tiny: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_job(job(tiny, tmp_path / "undisturbed"))
    interrupted, save_state = job(tiny, tmp_path / "run"), checkpoint.save_state

    def save_and_stop(folder: Path, state: dict[str, Any]) -> None:
        save_state(folder, state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "save_state", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            run_job(interrupted)
    state = tmp_path / "run" / "state.pt"
    state.write_bytes(state.read_bytes()[: int(kept * state.stat().st_size)])
    with caplog.at_level(logging.WARNING, logger="levelfield"):
        run_job(interrupted)
    assert "state.pt is damaged" in caplog.text and "starts from the beginning" in caplog.text
    assert files(tmp_path / "run") == files(tmp_path / "undisturbed")


@pytest.mark.parametrize("kept", [0, 4, 40])
def test_truncated_weights_are_named_with_the_remedy(kept: int, tmp_path: Path) -> None:
    checkpoint.save_weights(tmp_path, {"a": torch.arange(10.0)})
    file = tmp_path / "best.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(RunError, match=r"best\.safetensors is damaged.*delete the directory"):
        checkpoint.load_best_weights(tmp_path)
