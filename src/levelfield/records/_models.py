"""The records of an experiment, one model per kind of file or line. Reading them needs no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from levelfield.config import Experiment, Scalar
from levelfield.records._digest import digest
from levelfield.records._identity import NetworkIdentity

SETTINGS: tuple[str, ...] = ("separated", "concatenated")


class Record(BaseModel):
    """A file or a line of the folder; a field that this version does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _within_its_folder(value: str) -> str:
    if value in ("", ".", "..") or set(value) & set("/\\\0"):
        raise ValueError(f"{value!r} is no name of a record")
    return value


# The name of a record that another record holds: it never leads out of the experiment's folder.
FileName = Annotated[str, AfterValidator(_within_its_folder)]


class RunResult(Record):
    """How a run ended. Nothing in it depends on time or machine, unless it "failed".

    "diverged": the loss or a score was not finite. "failed": its process died each time that it was tried.
    ``collapse`` says what went wrong in a run that learned nothing, and the likely cause.
    """

    status: Literal["complete", "diverged", "failed"]
    reason: str = ""
    best_epoch: int = 0
    last_epoch: int = 0
    validation: dict[str, float] = Field(default_factory=dict)
    collapse: str = ""


class EpochLine(Record):
    """One measurement of a run: the mean loss since the one before (None before training), and scores.

    ``alike`` is the mean cosine between the embeddings of two validation images.
    """

    epoch: int
    loss: float | None
    scores: dict[str, float]
    alike: float | None = None


class Trial(Record):
    """One set of hyperparameters, tried on every fold.

    Attributes:
        number: Its place in the search, from 0.
        hyperparameters: What was tried.
        runs: The names of its runs, fold by fold.
        fold_scores: The validation score of each fold; None of one that failed.
        score: Their mean; None if a fold failed or the trial was ended early.
        reason: Why there is no score.
        estimate: Of a trial that was ended early, what its score might have been; else None.
        collapse: What went wrong in its first run that learned nothing, if any.
    """

    number: int
    hyperparameters: dict[str, Scalar]
    runs: tuple[FileName, ...] = ()
    fold_scores: tuple[float | None, ...] = ()
    score: float | None = None
    reason: str = ""
    estimate: float | None = None
    collapse: str = ""

    @property
    def pruned(self) -> bool:
        """Whether it was ended early because it could no longer win."""
        return self.estimate is not None


class Selection(Record):
    """The frozen choice of hyperparameters of one method.

    The baseline chooses nothing; ``network`` says what its scores depend on, and the rest is empty. Where
    every trial failed, ``failed`` says why, and there is nothing to confirm.
    """

    method: str
    search: str | None = None
    trial: int | None = None
    hyperparameters: dict[str, Scalar] = Field(default_factory=dict)
    score: float | None = None
    network: NetworkIdentity | None = None
    failed: str | None = None

    @property
    def selection_id(self) -> str:
        """The hash that names its confirmation; fields that came later do not change older names."""
        values = self.model_dump(mode="json")
        return digest({name: value for name, value in values.items() if name != "failed" or value})


class Estimated(Record):
    """A mean over test queries with its 95% interval."""

    value: float
    low: float
    high: float


class Reranked(Record):
    """What one way of re-ranking does to the scores of a rerun's first model.

    Attributes:
        name: "none" for the plain ranking.
        parameters: Those that were best on the validation classes.
        validation_gain: What it gained there.
        scores: Of the test set, by metric.
        gains: Over the plain ranking, by metric.
    """

    name: str
    parameters: dict[str, int | float]
    validation_gain: float
    scores: dict[str, Estimated]
    gains: dict[str, Estimated]


class Rerun(Record):
    """The test scores of one rerun, or why it ``failed``.

    Attributes:
        separated: The mean over the folds' models, by metric.
        concatenated: The folds' embeddings side by side.
        folds: The scores of each fold's model.
        best_epochs: Of each fold's run; empty if the network was not trained.
        runs: The names of the folds' runs, which bind the scores to what was trained; empty in older records.
        metric_sources: The hash of each metric that is not part of this package: edited, it is computed anew.
        failed: Why there are no scores.
        collapse: What went wrong in the first of its runs that learned nothing, if any.
        reranked: With and without re-ranking; of a method's first rerun only, and if it was asked for.
    """

    separated: dict[str, float] = Field(default_factory=dict)
    concatenated: dict[str, float] = Field(default_factory=dict)
    folds: tuple[dict[str, float], ...] = ()
    best_epochs: tuple[int, ...] = ()
    runs: tuple[str, ...] = ()
    metric_sources: dict[str, str] = Field(default_factory=dict)
    failed: str | None = None
    collapse: str = ""
    reranked: tuple[Reranked, ...] = ()

    def scores(self, setting: str) -> dict[str, float]:
        """The scores by metric of "separated" or "concatenated"."""
        return self.concatenated if setting == "concatenated" else self.separated


class Measure(Record):
    """What a reader must know of a metric: its card, without its code.

    Attributes:
        name: As in the experiment file.
        label: As papers print it.
        unit: "percent" for shares of 1 that tables print times 100, "" for plain numbers.
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


def _as_tuple(value: Any) -> Any:
    """Schema 1 knew one search per method, and wrote its name without a list."""
    return (value,) if isinstance(value, str) else value


Names = Annotated[tuple[FileName, ...], BeforeValidator(_as_tuple)]


class Index(Record):
    """What the folder holds, by method: ``experiment.json``.

    Attributes:
        experiment: As last resolved, without what belongs to a machine.
        split: The split plan in words.
        leaky: Whether search and selection are shown the test set, on purpose.
        baseline: The name of the row before training.
        measures: The metrics that are tested, and the one that selects.
        searches: The names of each method's searches: one, or ``search.repeats``.
        selections: The names of their frozen selections, in the same order; the baseline has one.
        plugins: The hash of each plug-in file and entry point that was loaded.
        notes: What was adapted to the data, one sentence each.
    """

    experiment: Experiment
    split: str
    leaky: bool
    baseline: str
    measures: tuple[Measure, ...] = ()
    searches: dict[str, Names]
    selections: dict[str, Names]
    plugins: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def selection_ids(self, method: str) -> tuple[str, ...]:
        """The names of a method's confirmations, which the names of its selections end in."""
        return tuple(name.rpartition("-")[2] for name in self.selections[method])

    def measure(self, metric: str) -> Measure | None:
        """What is on record of a metric."""
        return next((measure for measure in self.measures if measure.name == metric), None)


FEEDBACK = "leaky: search and selection are shown the test set"  # events of the ledger
MORE_RERUNS = "reruns added after a look"
MORE_SEARCHES = "search added after a look"
PICTURES = "opened for pictures"
SEALED = "scores sealed"


class LedgerLine(Record):
    """One opening of the test set. Lines are chained: each holds the hash of the one before.

    Attributes:
        time: When, in UTC.
        host: On which machine.
        commit: Of levelfield.
        method: For which method; "all" where the whole experiment is meant.
        selection: For which frozen choice.
        event: Why.
        reruns: Which reruns it was opened for.
        plugins: The hash of each plug-in that was loaded.
        sealed: The hash of each file of scores that was computed since the last seal, by its path in
            ``confirmations``. Lines without are written, and hashed, as before there were seals.
        previous: The hash of the line before; empty in the first line, and in ledgers of schema 1.
    """

    time: str
    host: str
    commit: str | None
    method: str
    selection: str
    event: str
    reruns: tuple[int, ...] = ()
    plugins: dict[str, str] = Field(default_factory=dict)
    sealed: dict[str, str] = Field(default_factory=dict)
    previous: str = ""

    @model_serializer(mode="wrap")
    def _without_no_seal(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        return {name: value for name, value in values.items() if name != "sealed" or value}

    @property
    def line_id(self) -> str:
        """The hash that the next line holds."""
        return digest(self.model_dump(mode="json"))


class LedgerHead(Record):
    """How many lines a ledger has, and the hash of the last one: so that a cut shows."""

    lines: int = Field(ge=1)
    last: str

    def fits(self, ledger: Sequence[LedgerLine]) -> bool:
        """Whether the ledger has all lines that were counted, and the last of them is the one that was."""
        return len(ledger) >= self.lines and ledger[self.lines - 1].line_id == self.last


class SearchLuck(Record):
    """What the searches of one method found, by the metric that they were tuned for.

    Attributes:
        dataset: Its name.
        trunk: Its name.
        mode: How much of the trunk is trained.
        method: Its name.
        metric: What ``means`` are of.
        trials: Of one search.
        reruns: Of each search's choice.
        means: Test score of each search's choice, the mean over its reruns.
        between: Standard deviation of the searches' scores.
        within: Standard deviation of one rerun's score, within searches.
        pairs: Pairs of searches.
        different: Pairs that a comparison without repeats would have called different.
    """

    dataset: str
    trunk: str
    mode: str
    method: str
    metric: str
    trials: int
    reruns: int
    means: tuple[float, ...]
    between: float
    within: float
    pairs: int
    different: int


class Revision(Record):
    """The experiment as it stood at a time, with the hashes of its plug-ins."""

    time: str
    experiment: Experiment
    plugins: dict[str, str] = Field(default_factory=dict)


class Environment(Record):
    """What a process runs on and with."""

    python: str
    versions: dict[str, str | None]
    commit: str | None
    host: str
    platform: str
    processor: str
    cores: int | None


class Provenance(Environment):
    """Where a run's record comes from. Never part of an identity."""

    threads: int
    device: str
    plugins: dict[str, str] = Field(default_factory=dict)
    finished: str
    seconds: float


def experiment_record(experiment: Experiment) -> dict[str, Any]:
    """The experiment as records hold it: without engine, trackers, plug-in paths and addresses.

    Example:
        >>> from levelfield.config import Experiment
        >>> values = experiment_record(Experiment.build(name="x", preset="demo", plugins=["a.py"]))
        >>> "engine" in values, "plugins" in values, values["name"]
        (False, False, 'x')
    """
    return experiment.model_dump(
        mode="json",
        exclude={"engine": True, "track": True, "plugins": True, "dataset": {"root"}, "search": {"storage"}},
    )
