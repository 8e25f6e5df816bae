"""A run's folder: spec, log, best weights, resumable state, result, provenance."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from levelfield import files
from levelfield.errors import RunError
from levelfield.records._identity import SCHEMA_VERSION, RunSpec

if TYPE_CHECKING:
    from torch import Tensor


class RunResult(BaseModel):
    """How a run ended. Nothing in it depends on time or machine."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: Literal["complete", "diverged"]
    reason: str = ""
    best_epoch: int = 0
    last_epoch: int = 0
    validation: dict[str, float] = {}


class RunFolder:
    """The files of one run, under ``runs/<run id>``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run alone: a worker that outlived its killed parent must end before we begin."""
        with files.lock(self.path / ".lock"):
            for left_behind in self.path.glob(".*.tmp"):  # by a process that was killed while writing
                left_behind.unlink()
            yield

    def begin(self, spec: RunSpec) -> None:
        """Write the spec; refuse a folder that an older schema wrote."""
        file = self.path / "spec.json"
        if file.exists():
            found = files.read_json(file).get("schema_version")
            if found != SCHEMA_VERSION:
                raise RunError(
                    f"{self.path} was written by schema {found}, this is schema {SCHEMA_VERSION}; "
                    "choose a new --out folder, or read it with the version that wrote it"
                )
            return
        files.write_json(file, spec.model_dump(mode="json"))

    def spec(self) -> RunSpec:
        """The spec as written."""
        return RunSpec.model_validate(files.read_json(self.path / "spec.json"))

    def result(self) -> RunResult | None:
        """The result, or None while the run is unfinished."""
        file = self.path / "result.json"
        if not file.exists():
            return None
        try:
            return RunResult.model_validate(files.read_json(file))
        except ValidationError as error:
            raise RunError(
                f"{file} does not fit this version; delete it and give the same command again"
            ) from error

    def finish(self, result: RunResult, provenance: dict[str, Any]) -> None:
        """Write the result (the mark of a finished run) and drop the resumable state."""
        files.write_json(self.path / "provenance.json", provenance)
        files.write_json(self.path / "result.json", result.model_dump(mode="json"))
        (self.path / "state.pt").unlink(missing_ok=True)

    def log(self) -> list[dict[str, Any]]:
        """The per-epoch log."""
        return files.read_lines(self.path / "epochs.jsonl")

    def append_log(self, line: dict[str, Any]) -> None:
        """Add one epoch to the log."""
        files.append_line(self.path / "epochs.jsonl", line)

    def rewind_log(self, last_epoch: int) -> None:
        """Forget epochs after ``last_epoch``: they were logged after the state that we resume from."""
        kept = [line for line in self.log() if line["epoch"] <= last_epoch]
        text = "".join(json.dumps(line, sort_keys=True, allow_nan=False) + "\n" for line in kept)
        files.write_text(self.path / "epochs.jsonl", text)

    def save_weights(self, tensors: dict[str, Tensor]) -> None:
        """Keep the best weights."""
        from safetensors.torch import save

        whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        files.write_bytes(self.path / "best.safetensors", save(whole))

    def weights(self) -> dict[str, Tensor]:
        """The best weights."""
        from safetensors.torch import load_file

        file = self.path / "best.safetensors"
        if not file.exists():
            raise RunError(
                f"{file} is missing; delete the folder {self.path} and give the same command again"
            )
        return load_file(file)

    def save_state(self, state: dict[str, Any]) -> None:
        """Keep what is needed to go on after a kill."""
        import torch

        buffer = io.BytesIO()
        torch.save(state, buffer)
        files.write_bytes(self.path / "state.pt", buffer.getvalue())

    def state(self) -> dict[str, Any] | None:
        """The last saved state, or None."""
        import torch

        file = self.path / "state.pt"
        if not file.exists():
            return None
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        return state
