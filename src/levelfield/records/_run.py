"""A run's folder: spec, log, result, provenance. Weights and resumable state lie beside them (``train``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from levelfield import files
from levelfield.errors import RunError
from levelfield.records import _version1
from levelfield.records._identity import SCHEMA_VERSION, RunSpec
from levelfield.records._models import EpochLine, Provenance, RunResult
from levelfield.records._parse import parse, read_record

STATE_FILE = "state.pt"  # what an unfinished run goes on from; `train` writes it


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
        return read_record(RunSpec, self.path / "spec.json", upgrade=_version1.upgrade_spec)

    def result(self) -> RunResult | None:
        """The result, or None while the run is unfinished."""
        file = self.path / "result.json"
        return read_record(RunResult, file) if file.exists() else None

    def provenance(self) -> Provenance | None:
        """Where the result comes from, or None if that is not known."""
        file = self.path / "provenance.json"
        return read_record(Provenance, file) if file.exists() else None

    def finish(self, result: RunResult, provenance: Provenance) -> None:
        """Write the result, which marks the run as finished."""
        files.write_json(self.path / "provenance.json", provenance.model_dump(mode="json"))
        files.write_json(self.path / "result.json", result.model_dump(mode="json"))

    def give_up(self, result: RunResult) -> None:
        """Write the result of a run that nobody could finish; it comes from no machine."""
        files.write_json(self.path / "result.json", result.model_dump(mode="json"))

    def log(self) -> list[EpochLine]:
        """The measurements, in order."""
        file = self.path / "epochs.jsonl"
        return [parse(EpochLine, _version1.upgrade_epoch(line), file) for line in files.read_lines(file)]

    def append_log(self, line: EpochLine) -> None:
        """Add one measurement."""
        files.append_line(self.path / "epochs.jsonl", line.model_dump(mode="json"))

    def rewind_log(self, last_epoch: int) -> None:
        """Forget epochs after ``last_epoch``: they were logged after the state that we resume from."""
        kept = [line.model_dump(mode="json") for line in self.log() if line.epoch <= last_epoch]
        text = "".join(json.dumps(line, sort_keys=True, allow_nan=False) + "\n" for line in kept)
        files.write_text(self.path / "epochs.jsonl", text)

    def size(self) -> int:
        """The bytes of all its files."""
        return sum(file.stat().st_size for file in self.path.iterdir())
