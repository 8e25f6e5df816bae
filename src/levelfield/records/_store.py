"""The folder of an experiment: runs, searches, selections, confirmations, ledger, report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from levelfield import files
from levelfield.errors import RunError
from levelfield.records._identity import SCHEMA_VERSION
from levelfield.records._run import RunFolder


class Store:
    """Everything one experiment has computed. Finished parts are never computed twice.

    ::

        experiment.json            the experiment as last resolved
        runs/<id>/                 one training each
        searches/<id>/trial-*.json one per finished trial
        selections/<id>.json       the frozen choice of hyperparameters
        confirmations/<id>/        test scores, one file per rerun
        ledger.jsonl               every opening of the test set
        report/                    index.html, results.csv, results.md
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def open(self) -> Iterator[None]:
        """Check the schema and hold the folder, so that two commands do not write into it at once."""
        busy = f"another levelfield command is working in {self.root}; wait for it to end"
        with files.lock(self.root / ".lock", busy=busy):
            self._check_schema()
            yield

    def _check_schema(self) -> None:
        file = self.root / "schema.json"
        if not file.exists():
            if any(item.name != ".lock" for item in self.root.iterdir()):
                raise RunError(
                    f"{self.root} holds files that are not levelfield's; choose an empty --out folder"
                )
            files.write_json(file, {"schema_version": SCHEMA_VERSION})
        found = files.read_json(file).get("schema_version")
        if found != SCHEMA_VERSION:
            raise RunError(
                f"{self.root} was written by schema {found}, this is schema {SCHEMA_VERSION}; "
                "choose a new --out folder, or read it with the version that wrote it"
            )

    def run(self, run_id: str) -> RunFolder:
        """The folder of one run."""
        return RunFolder(self.root / "runs" / run_id)

    def trials(self, search_id: str) -> list[dict[str, Any]]:
        """The finished trials of a search, in order; a gap ends the list."""
        found: list[dict[str, Any]] = []
        while (file := self.trial_file(search_id, len(found))).exists():
            found.append(files.read_json(file))
        return found

    def trial_file(self, search_id: str, number: int) -> Path:
        """Where trial ``number`` is recorded."""
        return self.root / "searches" / search_id / f"trial-{number:04d}.json"

    def selection_file(self, search_id: str) -> Path:
        """Where the frozen choice of a search lies."""
        return self.root / "selections" / f"{search_id}.json"

    def confirmation(self, selection_id: str) -> Path:
        """The folder of a selection's test scores."""
        return self.root / "confirmations" / selection_id

    @property
    def ledger_file(self) -> Path:
        """Every opening of the test set, one JSON line each."""
        return self.root / "ledger.jsonl"

    @property
    def report_folder(self) -> Path:
        """Where tables, figures and the page are written."""
        return self.root / "report"
