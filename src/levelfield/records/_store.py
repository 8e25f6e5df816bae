"""Directory of an experiment: the path of each record, reading and writing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath

from levelfield.core import files
from levelfield.core.errors import RunError, UsageError
from levelfield.records._archive_files import ArchiveFiles, ArchiveManifest, is_archive, open_record_files
from levelfield.records._archive_writer import write_archive
from levelfield.records._gallery import Gallery
from levelfield.records._identity import SCHEMA_VERSION, Search
from levelfield.records._models import (
    ExperimentRecord,
    LedgerHead,
    LedgerLine,
    Rerun,
    Revision,
    SearchLuck,
    Selection,
    Trial,
    dump_experiment,
)
from levelfield.records._parse import parse_record, read_record, schema_error
from levelfield.records._record_files import RecordFiles, RecordT, RerunArrays
from levelfield.records._run import STATE_FILE, RunDirectory
from levelfield.records._score_seal import compute_seal
from levelfield.records._verdict import VerdictRecord

EXPERIMENTS_DIRECTORY = Path("runs")  # default parent of experiment directories
SEARCH_LUCK_FILE = "search-luck.json"
RESTORE = "restore it from a copy, or begin with a new --out directory"


def default_directory(experiment_name: str) -> Path:
    """Return the directory of an experiment without ``--out``.

    Example:
        >>> default_directory("demo").as_posix()
        'runs/demo'
    """
    return EXPERIMENTS_DIRECTORY / experiment_name


class Store:
    """Records of one experiment. Finished parts are never computed twice.

    ::

        schema.json                     schema version of the records
        experiment.json                 the experiment as last resolved, and the names of its records
        revisions.jsonl                 each edit of the experiment
        runs/<id>/                      one training each: spec, log, result, provenance, weights
        searches/<id>/search.json       identity of the search
        searches/<id>/trial-NNNN.json   finished trials
        selections/<method>-<id>.json   frozen choices of hyperparameters
        confirmations/<id>/             test scores (rerun-NN.json), values per query (rerun-NN.safetensors)
        confirmations/gallery.json      retrieval gallery, with the map of the embedding
        confirmations/pictures.safetensors  small images of the gallery
        ledger.jsonl                    openings of the test set, each line chained to the line before
        ledger.head.json                number of lines of the ledger, and digest of the last line
        local.json                      path of the dataset on this machine, which no archive has
        plan.json                       plan that the experiment was preregistered with, if any
        report/                         pages, tables and figures

    An archive (``levelfield archive``) has one file per kind of record instead of the directories, see
    ``_archive_files.py``. It is read like the directory that it was made from, but never written to.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._is_open = False

    @property
    def is_archive(self) -> bool:
        """True if the records are an archive."""
        return isinstance(self._records, ArchiveFiles)

    @cached_property
    def _records(self) -> RecordFiles:
        return open_record_files(self.root)

    def _read(self, model: type[RecordT], name: str) -> RecordT | None:
        return self._records.read(model, name) if self._records.exists(name) else None

    def write_archive(self, out: Path) -> ArchiveManifest:
        """Write all records to the new directory ``out`` as an archive, and return its manifest."""
        return write_archive(self.root, self._records, out, gallery=self.gallery())

    @contextmanager
    def open(self) -> Iterator[None]:
        """Check the schema and lock the directory, so that two commands do not write to it at once."""
        if is_archive(self.root):
            raise UsageError(f"{self.root} is an archive, which is only read; choose another --out directory")
        busy = f"another levelfield command is working in {self.root}; wait for it to end"
        with files.lock(self.root / ".lock", busy=busy):
            self._check_schema()
            files.make_directory(self.root / "runs")
            self._is_open = True
            try:
                yield
            finally:
                self._is_open = False
                self._delete_leftovers()

    def _require(self) -> None:
        """Raise RunError if the directory was deleted while this process has it open."""
        if self._is_open:
            files.require_directory(self.root / "runs")

    def _delete_leftovers(self) -> None:
        """Delete the leftovers of killed processes: temporary files, and states of finished runs.

        Temporary files of a run are deleted by :class:`RunDirectory` when the run resumes. A tracker may be
        at work; its files are deleted when its process is gone.
        """
        for state in self.root.glob(f"runs/*/{STATE_FILE}"):
            if (state.parent / "result.json").exists():
                state.unlink(missing_ok=True)
        for directory in (".", "searches/*", "selections", "confirmations", "confirmations/*"):
            for temporary in self.root.glob(f"{directory}/.*.tmp"):
                temporary.unlink(missing_ok=True)
        for directory in ("tracking", "tracking/*"):
            for temporary in self.root.glob(f"{directory}/.*.tmp"):
                if not files.has_living_writer(temporary):
                    temporary.unlink(missing_ok=True)

    def _check_schema(self) -> None:
        file = self.root / "schema.json"
        if not file.exists():
            unfinished = list(self.root.glob(".schema.json.*.tmp"))  # of a process that was killed
            if any(item.name != ".lock" and item not in unfinished for item in self.root.iterdir()):
                raise RunError(
                    f"{self.root} holds files that are not levelfield's; choose an empty --out directory"
                )
            for item in unfinished:
                item.unlink()
            files.write_json(file, {"schema_version": SCHEMA_VERSION})
        self.check_schema_version()

    def check_schema_version(self) -> None:
        """Raise RunError if the directory has another schema version; its digests would not be found."""
        found = self.schema_version()
        if (self.root / "schema.json").exists() and found != SCHEMA_VERSION:
            raise schema_error(self.root, found)

    def schema_version(self) -> int | None:
        """Return the schema version of the directory; None if it is not recorded."""
        file = self.root / "schema.json"
        if not file.exists():
            return None
        content = files.read_json(file)
        return content.get("schema_version") if isinstance(content, dict) else None

    # The experiment and its revisions

    def experiment_record(self) -> ExperimentRecord:
        """Return the contents of the directory (``experiment.json``)."""
        file = self.root / "experiment.json"
        if not file.exists():
            raise UsageError(
                f"{self.root} holds no levelfield experiment; give the directory that `levelfield run` wrote"
            )
        self.check_schema_version()
        return read_record(ExperimentRecord, file)

    def write_experiment_record(self, record: ExperimentRecord) -> None:
        """Write ``experiment.json``, from which a report finds all other records."""
        self._require()
        values = record.model_dump(mode="json", exclude={"experiment"}, by_alias=True)
        files.write_json(
            self.root / "experiment.json", values | {"experiment": dump_experiment(record.experiment)}
        )

    def revisions(self) -> list[Revision]:
        """Return the revisions of the experiment, in order."""
        file = self.root / "revisions.jsonl"
        return [parse_record(Revision, line, file) for line in files.read_lines(file)]

    def append_revision(self, revision: Revision) -> None:
        """Add a revision, unless it equals the last one."""
        self._require()
        record = dump_experiment(revision.experiment)
        known = self.revisions()
        if known and (dump_experiment(known[-1].experiment), known[-1].plugins, known[-1].stated) == (
            record,
            revision.plugins,
            revision.stated,
        ):
            return
        revision = revision.model_copy(update={"ledger_lines": len(self.ledger())})
        values = revision.model_dump(mode="json", exclude={"experiment"})
        files.append_line(self.root / "revisions.jsonl", values | {"experiment": record})

    # Runs and searches

    def run(self, run_id: str) -> RunDirectory:
        """Return the directory of one run."""
        path = self.root / "runs" / run_id
        return RunDirectory(path, self._records if self.is_archive else None)

    def runs(self) -> list[RunDirectory]:
        """Return the directories of all runs."""
        return [self.run(run_id) for run_id in self._records.run_ids()]

    def search(self, search_id: str) -> Search | None:
        """Return the identity of a search; None if it is not recorded."""
        return self._read(Search, f"searches/{search_id}/search.json")

    def write_search(self, search: Search) -> None:
        """Write the identity of a search, once."""
        self._require()
        file = self.root / "searches" / search.search_id / "search.json"
        if not file.exists():
            files.write_json(file, search.model_dump(mode="json"))

    def trials(self, search_id: str) -> list[Trial]:
        """Return the finished trials of a search, in order, up to the first gap."""
        found: list[Trial] = []
        while (trial := self.trial(search_id, len(found))) is not None:
            found.append(trial)
        return found

    def trial(self, search_id: str, number: int) -> Trial | None:
        """Return one trial; None if it is not finished."""
        return self._read(Trial, f"searches/{search_id}/{_trial_name(number)}")

    def write_trial(self, search_id: str, trial: Trial) -> None:
        """Write a finished trial."""
        self._require()
        files.write_json(self.trial_file(search_id, trial.number), trial.model_dump(mode="json"))

    def trial_file(self, search_id: str, number: int) -> Path:
        """Return the file of trial ``number``."""
        return self.root / "searches" / search_id / _trial_name(number)

    # Selections and their test scores

    def freeze(self, selection: Selection) -> Path:
        """Write a selection, unless it exists, and return its file."""
        self._require()
        file = self.selection_file(f"{selection.method}-{selection.selection_id}")
        if not file.exists():
            files.write_json(file, selection.model_dump(mode="json"))
        return file

    def selection(self, name: str) -> Selection:
        """Return the frozen selection with this name in ``experiment.json``."""
        return self._records.read(Selection, f"selections/{name}.json")

    def selections(self) -> dict[str, Selection]:
        """Return all frozen selections by name, also the replaced ones."""
        names = [PurePosixPath(name).stem for name in self._records.names("selections")]
        return {name: self.selection(name) for name in names}

    def selection_file(self, name: str) -> Path:
        """Return the file of a frozen selection."""
        return self.root / "selections" / f"{name}.json"

    def rerun_file(self, selection_id: str, number: int) -> Path:
        """Return the file of a rerun's scores; values per query have the same name with .safetensors."""
        return self.root / "confirmations" / selection_id / f"{_rerun_name(number)}.json"

    def rerun(self, selection_id: str, number: int) -> Rerun | None:
        """Return one rerun; None if it is not scored."""
        return self._read(Rerun, f"confirmations/{selection_id}/{_rerun_name(number)}.json")

    def rerun_arrays(self, selection_id: str, number: int) -> RerunArrays | None:
        """Return the values per query of a rerun, or class means in an archive; None if there are none."""
        found = RerunArrays(self._records, f"confirmations/{selection_id}/{_rerun_name(number)}.safetensors")
        return found if self._records.exists(found.name) else None

    def seal(self, name: str) -> str | None:
        """Return the seal of a file of scores as it is now, by its path in ``confirmations``.

        None if there is no such record.
        """
        return compute_seal(self._records, name)

    def reruns(self, selection_id: str, count: int) -> dict[int, Rerun]:
        """Return the recorded reruns among the first ``count`` by number, with the failed ones."""
        found = {number: self.rerun(selection_id, number) for number in range(count)}
        return {number: rerun for number, rerun in found.items() if rerun is not None}

    def gallery(self) -> Gallery | None:
        """Return the retrieval gallery; None if there is none, as in an archive."""
        file = self.root / "confirmations" / "gallery.json"
        return read_record(Gallery, file) if file.exists() and not self.is_archive else None

    def class_names(self) -> dict[int, str]:
        """Return the names of the test classes by label; empty if none are on record."""
        if isinstance(self._records, ArchiveFiles):
            return self._records.class_names()
        gallery = self.gallery()
        return {} if gallery is None else gallery.class_names

    @property
    def gallery_images_file(self) -> Path:
        """File of the gallery's images."""
        return self.root / "confirmations" / "pictures.safetensors"

    def write_gallery(self, gallery: Gallery, images: bytes) -> None:
        """Write a gallery; the images first, so that ``gallery.json`` never refers to missing images."""
        self._require()
        files.write_bytes(self.gallery_images_file, images)
        text = gallery.model_dump_json() + "\n"  # one line, because of long lists of numbers
        files.write_text(self.root / "confirmations" / "gallery.json", text)

    @property
    def verdict_file(self) -> Path:
        """File of the conclusion, which the report writes."""
        return self.report_directory / "verdict.json"

    def verdict(self) -> VerdictRecord | None:
        """Return the conclusion of the report; None if there is none, or if the ledger has grown since.

        A damaged file counts as none: `levelfield report` writes it again.
        """
        try:
            found = read_record(VerdictRecord, self.verdict_file)
            return found if found.ledger == self.ledger_digest() else None
        except (RunError, OSError):
            return None

    def ledger_digest(self) -> str:
        """Return the digest of the ledger's last line; "" without a ledger."""
        head = self.ledger_head()
        return "" if head is None else head.last

    @property
    def ledger_file(self) -> Path:
        """File of the ledger, one JSON line per opening of the test set."""
        return self.root / "ledger.jsonl"

    def ledger(self) -> list[LedgerLine]:
        """Return all openings of the test set."""
        return read_ledger(self.ledger_file)

    def append_ledger(self, line: LedgerLine) -> None:
        """Append a line to the ledger, chained to the line before, and update the head.

        Raises:
            RunError: The ledger was cut or edited. A new head would hide that.
        """
        self._require()
        before, head = self.ledger(), self.ledger_head()
        if head is None and len(before) > 1:  # a kill may leave one line without a head
            raise RunError(f"{self.ledger_head_file} is missing: {RESTORE}")
        if head is not None and not head.fits(before):
            raise RunError(f"{self.ledger_file} was cut or edited; {RESTORE}")
        chained = line.model_copy(update={"previous": before[-1].line_id if before else ""})
        files.append_line(self.ledger_file, chained.model_dump(mode="json"))
        head = LedgerHead(lines=len(before) + 1, last=chained.line_id)
        files.write_json(self.ledger_head_file, head.model_dump(mode="json"))

    @property
    def plan_file(self) -> Path:
        """File of the plan that the experiment runs under; it may not exist."""
        return self.root / "plan.json"

    @property
    def ledger_head_file(self) -> Path:
        """File of the ledger's head."""
        return self.root / "ledger.head.json"

    def ledger_head(self) -> LedgerHead | None:
        """Return the number of lines and the digest of the last line; None before the first opening."""
        file = self.ledger_head_file
        if not file.exists():
            return None
        try:
            return read_record(LedgerHead, file)
        except RunError as error:  # unlike other records it cannot be computed again
            raise RunError(f"{file}, which holds the length of the ledger, is damaged: {RESTORE}") from error

    def sibling_search_luck(self) -> list[SearchLuck]:
        """Return the results of search-luck studies in sibling directories (runs/study-search-luck)."""
        found = []
        for file in sorted(self.root.absolute().parent.glob(f"*/{SEARCH_LUCK_FILE}")):
            with suppress(RunError):  # a damaged file, or of another version, is ignored
                found.append(read_record(SearchLuck, file))
        return found

    def confirmed(self) -> dict[str, list[int]]:
        """Return the numbers of the scored reruns by digest of their selection."""
        found: dict[str, list[int]] = {}
        for file in map(PurePosixPath, self._records.names("reruns")):
            number = file.stem.removeprefix("rerun-")
            if number.isdecimal():
                found.setdefault(file.parent.name, []).append(int(number))
        return found

    def archive_problems(self) -> list[str]:
        """Return a sentence for each file of an archive that is not as it was written; empty otherwise."""
        return list(self._records.check_content()) if isinstance(self._records, ArchiveFiles) else []

    @property
    def report_directory(self) -> Path:
        """Directory of the report: pages, tables and figures."""
        return self.root / "report"


def _trial_name(number: int) -> str:
    return f"trial-{number:04d}.json"


def _rerun_name(number: int) -> str:
    return f"rerun-{number:02d}"


def read_selection(file: Path) -> Selection:
    """Return the frozen selection in ``file``."""
    return read_record(Selection, file)


def read_ledger(file: Path) -> list[LedgerLine]:
    """Return the lines of a ledger; an empty list if the file is missing."""
    try:
        return [parse_record(LedgerLine, line, file) for line in files.read_lines(file)]
    except RunError as error:  # deleting a line would leave a gap that cannot be explained
        raise RunError(f"{str(error).partition(';')[0]}; {RESTORE}") from error


def write_rerun(file: Path, rerun: Rerun) -> None:
    """Write the scores of a rerun."""
    files.write_json(file, rerun.model_dump(mode="json"))
