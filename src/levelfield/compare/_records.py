"""The records of an experiment, as a comparison reads them. Nothing here needs torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from levelfield.config import Experiment
from levelfield.errors import RunError, UsageError
from levelfield.records import Store, digest, read_json, read_lines
from levelfield.space import Value


class Record(BaseModel):
    """A file of the folder; fields that a comparison does not need are passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True)


RecordT = TypeVar("RecordT", bound=Record)


class Measure(Record):
    """What a report must know of a metric; see :class:`levelfield.metrics.MetricCard`.

    Attributes:
        name: Its registered name.
        label: As papers print it.
        unit: "percent" for scores from 0 to 1, which are shown times 100; empty for a bare number.
        higher_is_better: Which way is better; None if neither is.
    """

    name: str
    label: str
    unit: str = ""
    higher_is_better: bool | None = None

    @property
    def scale(self) -> float:
        """What a value is multiplied with to be shown."""
        return 100.0 if self.unit == "percent" else 1.0

    def shown(self, value: float, sign: str = "") -> str:
        """A value as tables print it; ``sign`` "+" marks differences.

        Example:
            >>> Measure(name="map_at_r", label="MAP@R", unit="percent").shown(0.1234)
            '12.34'
        """
        return f"{self.scale * value:{sign}.{2 if self.unit == 'percent' else 4}f}"

    @property
    def axis(self) -> str:
        """The label with its unit."""
        return f"{self.label} (%)" if self.unit == "percent" else self.label


class Trial(Record):
    """One set of hyperparameters; ``score`` None if it failed, ``estimate`` if it was ended early."""

    number: int
    hyperparameters: dict[str, Value]
    runs: tuple[str, ...] = ()
    score: float | None = None
    estimate: float | None = None


class Selection(Record):
    """The frozen choice of a search; the untrained baseline has no trial."""

    method: str
    hyperparameters: dict[str, Value] = {}
    trial: int | None = None
    score: float | None = None


class Rerun(Record):
    """The test scores of one rerun, or why it ``failed``; ``folds`` holds those of its single models."""

    separated: dict[str, float] = {}
    concatenated: dict[str, float] = {}
    folds: tuple[dict[str, float], ...] = ()
    best_epochs: tuple[int, ...] = ()
    failed: str | None = None

    def scores(self, setting: str) -> dict[str, float]:
        """The scores by metric of "separated" or "concatenated"."""
        return self.concatenated if setting == "concatenated" else self.separated


class LedgerLine(Record):
    """One opening of the test set."""

    time: str
    method: str = ""
    event: str
    selection: str = ""
    commit: str | None = None


class Revision(Record):
    """The experiment as it stood at a time, without what belongs to the machine."""

    time: str
    experiment: dict[str, Any]


class Index(Record):
    """What the folder holds, by method."""

    experiment: Experiment
    split: str
    leaky: bool
    baseline: str
    measures: tuple[Measure, ...] = ()
    searches: dict[str, str]
    selections: dict[str, str]


def read_index(root: Path) -> Index:
    """The index of an experiment's folder."""
    file = root / "experiment.json"
    if not file.exists():
        raise UsageError(
            f"{root} holds no levelfield experiment; give the folder that `levelfield run` wrote"
        )
    return _parsed(Index, file)


def read_selection(store: Store, name: str) -> tuple[Selection, str]:
    """A selection, and the name under which it was confirmed."""
    file = store.selection_file(name)
    return _parsed(Selection, file), digest(read_json(file))


def read_trials(store: Store, search: str) -> list[Trial]:
    """The finished trials of a search."""
    return [Trial.model_validate(trial) for trial in store.trials(search)]


def read_reruns(store: Store, confirmation: str, count: int) -> dict[int, Rerun]:
    """The recorded ones of the first ``count`` reruns, by number, failed ones too."""
    files = {number: rerun_file(store, confirmation, number) for number in range(count)}
    return {number: _parsed(Rerun, file) for number, file in files.items() if file.exists()}


def rerun_file(store: Store, confirmation: str, number: int) -> Path:
    """Where the scores of one rerun lie."""
    return store.confirmation(confirmation) / f"rerun-{number:02d}.json"


def read_ledger(store: Store) -> tuple[LedgerLine, ...]:
    """Every opening of the test set."""
    return tuple(LedgerLine.model_validate(line) for line in read_lines(store.ledger_file))


def read_revisions(store: Store) -> tuple[Revision, ...]:
    """The experiment from one edit to the next."""
    return tuple(Revision.model_validate(line) for line in read_lines(store.root / "revisions.jsonl"))


def _parsed(model: type[RecordT], file: Path) -> RecordT:
    try:
        return model.model_validate(read_json(file))
    except ValidationError as error:
        raise RunError(
            f"{file} does not fit this version ({error.error_count()} fields); "
            "read it with the version that wrote it"
        ) from error
