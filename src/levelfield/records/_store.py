"""The folder of an experiment: where each record lies, how it is written and read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from levelfield import files
from levelfield.errors import RunError, UsageError
from levelfield.records import _version1
from levelfield.records._gallery import Gallery
from levelfield.records._identity import SCHEMA_VERSION, Search
from levelfield.records._models import (
    Index,
    LedgerHead,
    LedgerLine,
    Rerun,
    Revision,
    SearchLuck,
    Selection,
    Trial,
    experiment_record,
)
from levelfield.records._parse import parse, read_record
from levelfield.records._run import STATE_FILE, RunFolder

READABLE_VERSIONS = (1, SCHEMA_VERSION)
SEARCH_LUCK_FILE = "search-luck.json"
RESTORE = "restore it from a copy, or begin with a new --out folder"


class Store:
    """Everything one experiment has computed. Finished parts are never computed twice.

    ::

        schema.json                     the version of the records
        experiment.json                 the experiment as last resolved, and where its records are
        revisions.jsonl                 the experiment from one edit to the next
        runs/<id>/                      one training each: spec, log, result, provenance, weights
        searches/<id>/search.json       what the search depends on
        searches/<id>/trial-NNNN.json   one per finished trial
        selections/<method>-<id>.json   the frozen choices of hyperparameters
        confirmations/<id>/             test scores, rerun-NN.json, and each query's own, rerun-NN.safetensors
        confirmations/gallery.json      which queries are shown, and the map of the embedding
        confirmations/pictures.safetensors  small pictures of them and of their neighbours
        ledger.jsonl                    every opening of the test set, each line chained to the one before
        ledger.head.json                how many lines it has, and the hash of the last one
        report/                         pages, tables and figures
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def open(self) -> Iterator[None]:
        """Check the schema and hold the folder, so that two commands do not write into it at once."""
        busy = f"another levelfield command is working in {self.root}; wait for it to end"
        with files.lock(self.root / ".lock", busy=busy):
            self._check_schema()
            try:
                yield
            finally:
                self._sweep()

    def _sweep(self) -> None:
        """Delete what killed writers left behind: half-written records, and states of runs that had ended.

        Half-written files of a run are its folder's affair: it is carried out again.
        """
        for state in self.root.glob(f"runs/*/{STATE_FILE}"):
            if (state.parent / "result.json").exists():
                state.unlink(missing_ok=True)
        for folder in (".", "searches/*", "selections", "confirmations", "confirmations/*"):
            for left_behind in self.root.glob(f"{folder}/.*.tmp"):
                left_behind.unlink(missing_ok=True)

    def _check_schema(self) -> None:
        file = self.root / "schema.json"
        if not file.exists():
            unfinished = list(self.root.glob(".schema.json.*.tmp"))  # by a process that was killed meanwhile
            if any(item.name != ".lock" and item not in unfinished for item in self.root.iterdir()):
                raise RunError(
                    f"{self.root} holds files that are not levelfield's; choose an empty --out folder"
                )
            for item in unfinished:
                item.unlink()
            files.write_json(file, {"schema_version": SCHEMA_VERSION})
        self.check_version()

    def check_version(self) -> None:
        """Refuse a folder that another version wrote: its names are others, so nothing would be found."""
        found = self.schema_version()
        if (self.root / "schema.json").exists() and found != SCHEMA_VERSION:
            readable = found in READABLE_VERSIONS
            raise RunError(
                f"{self.root} was written by schema {found}, this is schema {SCHEMA_VERSION}; "
                "choose a new --out folder"
                + ("; `levelfield report` still reads the old one" if readable else "")
            )

    def schema_version(self) -> int | None:
        """The version that wrote the folder; None if that is not known."""
        file = self.root / "schema.json"
        if not file.exists():
            return None
        content = files.read_json(file)
        return content.get("schema_version") if isinstance(content, dict) else None

    # The index and its revisions

    def index(self) -> Index:
        """What the folder holds."""
        file = self.root / "experiment.json"
        if not file.exists():
            raise UsageError(
                f"{self.root} holds no levelfield experiment; give the folder that `levelfield run` wrote"
            )
        found = self.schema_version()
        if found is not None and found not in READABLE_VERSIONS:
            raise RunError(
                f"{self.root} was written by schema {found}, and this version reads "
                f"{' and '.join(str(version) for version in READABLE_VERSIONS)}; "
                "read it with the version that wrote it"
            )
        return read_record(Index, file)

    def write_index(self, index: Index) -> None:
        """Say what the folder holds, so that a report needs nothing else."""
        values = index.model_dump(mode="json", exclude={"experiment"})
        files.write_json(
            self.root / "experiment.json", values | {"experiment": experiment_record(index.experiment)}
        )

    def revisions(self) -> list[Revision]:
        """The experiment from one edit to the next."""
        file = self.root / "revisions.jsonl"
        return [parse(Revision, line, file) for line in files.read_lines(file)]

    def note_revision(self, revision: Revision) -> None:
        """Add a revision, unless it is the last one."""
        record = experiment_record(revision.experiment)
        known = self.revisions()
        if known and (experiment_record(known[-1].experiment), known[-1].plugins) == (
            record,
            revision.plugins,
        ):
            return
        values = revision.model_dump(mode="json", exclude={"experiment"})
        files.append_line(self.root / "revisions.jsonl", values | {"experiment": record})

    # Runs and searches

    def run(self, run_id: str) -> RunFolder:
        """The folder of one run."""
        return RunFolder(self.root / "runs" / run_id)

    def runs(self) -> list[RunFolder]:
        """The folders of all runs."""
        folder = self.root / "runs"
        return [RunFolder(path) for path in sorted(folder.iterdir())] if folder.exists() else []

    def search(self, search_id: str) -> Search | None:
        """What a search depends on; None if that is not on record, as in folders of schema 1."""
        file = self.root / "searches" / search_id / "search.json"
        return read_record(Search, file) if file.exists() else None

    def write_search(self, search: Search) -> None:
        """Record what a search depends on, once."""
        file = self.root / "searches" / search.search_id / "search.json"
        if not file.exists():
            files.write_json(file, search.model_dump(mode="json"))

    def trials(self, search_id: str) -> list[Trial]:
        """The finished trials of a search, in order; a gap ends the list."""
        found: list[Trial] = []
        while (file := self.trial_file(search_id, len(found))).exists():
            found.append(read_record(Trial, file))
        return found

    def trial(self, search_id: str, number: int) -> Trial | None:
        """One trial, or None while it is not finished."""
        file = self.trial_file(search_id, number)
        return read_record(Trial, file) if file.exists() else None

    def write_trial(self, search_id: str, trial: Trial) -> None:
        """Record a finished trial."""
        files.write_json(self.trial_file(search_id, trial.number), trial.model_dump(mode="json"))

    def trial_file(self, search_id: str, number: int) -> Path:
        """Where trial ``number`` is recorded."""
        return self.root / "searches" / search_id / f"trial-{number:04d}.json"

    # Selections and what the test set says of them

    def freeze(self, selection: Selection) -> Path:
        """Write a selection once, and give its file; the same selection has the same name."""
        file = self.selection_file(f"{selection.method}-{selection.selection_id}")
        if not file.exists():
            files.write_json(file, selection.model_dump(mode="json"))
        return file

    def selection(self, name: str) -> Selection:
        """The frozen selection that an index calls ``name``."""
        return read_selection(self.selection_file(name))

    def selection_file(self, name: str) -> Path:
        """Where a frozen selection lies."""
        return self.root / "selections" / f"{name}.json"

    def rerun_file(self, selection_id: str, number: int) -> Path:
        """Where the scores of one rerun lie; each query's own are beside it, with the suffix .safetensors."""
        return self.root / "confirmations" / selection_id / f"rerun-{number:02d}.json"

    def rerun(self, selection_id: str, number: int) -> Rerun | None:
        """One rerun, or None while it is not scored."""
        file = self.rerun_file(selection_id, number)
        return read_record(Rerun, file) if file.exists() else None

    def reruns(self, selection_id: str, count: int) -> dict[int, Rerun]:
        """The recorded ones of the first ``count`` reruns by their number, failed ones too."""
        found = {number: self.rerun(selection_id, number) for number in range(count)}
        return {number: rerun for number, rerun in found.items() if rerun is not None}

    def gallery(self) -> Gallery | None:
        """Which test queries are shown; None if no gallery is kept."""
        file = self.root / "confirmations" / "gallery.json"
        return read_record(Gallery, file) if file.exists() else None

    @property
    def pictures_file(self) -> Path:
        """The small pictures of the gallery."""
        return self.root / "confirmations" / "pictures.safetensors"

    def write_gallery(self, gallery: Gallery, pictures: bytes) -> None:
        """Keep a gallery. The pictures come first: what names them is never there without them."""
        files.write_bytes(self.pictures_file, pictures)
        text = (
            gallery.model_dump_json() + "\n"
        )  # long lists of numbers: a line each would be no easier to read
        files.write_text(self.root / "confirmations" / "gallery.json", text)

    @property
    def ledger_file(self) -> Path:
        """Every opening of the test set, one JSON line each."""
        return self.root / "ledger.jsonl"

    def ledger(self) -> list[LedgerLine]:
        """Every opening of the test set."""
        return read_ledger(self.ledger_file)

    def append_ledger(self, line: LedgerLine) -> None:
        """Note an opening of the test set, chained to the line before; the head holds the length.

        A ledger that was cut or edited is not added to: the new head would hide it.
        """
        before, head = self.ledger(), self.ledger_head()
        if head is None and len(before) > 1:  # a kill may leave one line that no head counts
            raise RunError(f"{self.ledger_head_file} is missing: {RESTORE}")
        if head is not None and not head.fits(before):
            raise RunError(f"{self.ledger_file} is not what was written: it was cut or edited; {RESTORE}")
        chained = line.model_copy(update={"previous": before[-1].line_id if before else ""})
        files.append_line(self.ledger_file, chained.model_dump(mode="json"))
        head = LedgerHead(lines=len(before) + 1, last=chained.line_id)
        files.write_json(self.ledger_head_file, head.model_dump(mode="json"))

    @property
    def ledger_head_file(self) -> Path:
        """How long the ledger is."""
        return self.root / "ledger.head.json"

    def ledger_head(self) -> LedgerHead | None:
        """How many lines the ledger has, and the hash of the last one; None if nothing was opened."""
        file = self.ledger_head_file
        if not file.exists():
            return None
        try:
            return read_record(LedgerHead, file)
        except RunError as error:  # unlike other records it cannot be computed again
            raise RunError(f"{file}, which says how long the ledger is, is damaged: {RESTORE}") from error

    def search_luck_nearby(self) -> list[SearchLuck]:
        """What studies of search luck found whose folders lie beside this one: runs/study-search-luck."""
        found = []
        for file in sorted(self.root.absolute().parent.glob(f"*/{SEARCH_LUCK_FILE}")):
            with suppress(RunError):  # a study's file is beside the point here, damaged or of another version
                found.append(read_record(SearchLuck, file))
        return found

    def selection_files(self) -> list[Path]:
        """Every frozen selection, also those that a later one has replaced."""
        return sorted((self.root / "selections").glob("*.json"))

    def confirmed(self) -> dict[str, list[int]]:
        """Which reruns are scored, by the name of their selection."""
        found: dict[str, list[int]] = {}
        for file in sorted((self.root / "confirmations").glob("*/rerun-*.json")):
            found.setdefault(file.parent.name, []).append(int(file.stem.removeprefix("rerun-")))
        return found

    @property
    def report_folder(self) -> Path:
        """Where tables, figures and the page are written."""
        return self.root / "report"


def read_selection(file: Path) -> Selection:
    """The frozen selection in ``file``."""
    return read_record(Selection, file, upgrade=_version1.upgrade_selection)


def read_ledger(file: Path) -> list[LedgerLine]:
    """The lines of a ledger; none if there is no such file."""
    try:
        return [parse(LedgerLine, line, file) for line in files.read_lines(file)]
    except RunError as error:  # to remove a line, or the file, would leave a gap that nobody can explain
        raise RunError(f"{str(error).partition(';')[0]}; {RESTORE}") from error


def write_rerun(file: Path, rerun: Rerun) -> None:
    """Record the scores of a rerun."""
    files.write_json(file, rerun.model_dump(mode="json"))
