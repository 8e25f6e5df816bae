"""Directory of a run: spec, log, result, provenance. ``train`` stores weights and resumable state there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from levelfield.core import files
from levelfield.records._identity import SCHEMA_VERSION, RunSpec
from levelfield.records._models import EpochLine, Provenance, RunResult
from levelfield.records._parse import parse_record, schema_error
from levelfield.records._record_files import DirectoryFiles, RecordFiles

STATE_FILE = "state.pt"  # state of an unfinished run; written by `train`


class RunDirectory:
    """Records of one run, in ``runs/<run id>``.

    Args:
        path: Directory of the run. The run of an archive has none, and can only be read.
        records: Records of the archive that has the run.
    """

    def __init__(self, path: Path, records: RecordFiles | None = None) -> None:
        self.path = path
        self._records: RecordFiles = records or DirectoryFiles(path)
        self._prefix = "" if records is None else f"runs/{path.name}/"

    @property
    def begun(self) -> bool:
        """True if the spec is on record."""
        return self._records.exists(f"{self._prefix}spec.json")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the run exclusively; wait for a worker that outlived its killed parent."""
        if self.path.parent.name == "runs":  # of an experiment, which creates it
            files.require_directory(self.path.parent)
        with files.lock(self.path / ".lock"):
            for temporary in self.path.glob(".*.tmp"):  # of a process that was killed while writing
                temporary.unlink()
            yield

    def begin(self, spec: RunSpec) -> None:
        """Write the spec; raise RunError if the directory has records of another schema."""
        file = self.path / "spec.json"
        if file.exists():
            found = files.read_json(file).get("schema_version")
            if found != SCHEMA_VERSION:
                raise schema_error(self.path, found)
            return
        files.write_json(file, spec.model_dump(mode="json"))

    def spec(self) -> RunSpec:
        """Return the recorded spec."""
        return self._records.read(RunSpec, f"{self._prefix}spec.json")

    def result(self) -> RunResult | None:
        """Return the result, or None while the run is unfinished."""
        name = f"{self._prefix}result.json"
        return self._records.read(RunResult, name) if self._records.exists(name) else None

    def provenance(self) -> Provenance | None:
        """Return the provenance of the result; None if it is not recorded."""
        name = f"{self._prefix}provenance.json"
        return self._records.read(Provenance, name) if self._records.exists(name) else None

    def finish(self, result: RunResult, provenance: Provenance) -> None:
        """Write the result, which marks the run as finished."""
        files.require_directory(self.path)
        files.write_json(self.path / "provenance.json", provenance.model_dump(mode="json"))
        files.write_json(self.path / "result.json", result.model_dump(mode="json"))

    def write_failure(self, result: RunResult) -> None:
        """Write the result of a run that failed at every attempt; it has no provenance."""
        files.write_json(self.path / "result.json", result.model_dump(mode="json"))

    def log(self) -> list[EpochLine]:
        """Return the measurements, in order; an archive has none."""
        if self._prefix:
            return []
        file = self.path / "epochs.jsonl"
        return [parse_record(EpochLine, line, file) for line in files.read_lines(file)]

    def append_log(self, line: EpochLine) -> None:
        """Add one measurement."""
        files.require_directory(self.path)
        files.append_line(self.path / "epochs.jsonl", line.model_dump(mode="json"))

    def rewind_log(self, last_epoch: int) -> None:
        """Delete log lines after ``last_epoch``, which are newer than the state that the run resumes from."""
        kept = [line.model_dump(mode="json") for line in self.log() if line.epoch <= last_epoch]
        text = "".join(json.dumps(line, sort_keys=True, allow_nan=False) + "\n" for line in kept)
        files.write_text(self.path / "epochs.jsonl", text)
