"""Models of the records of an experiment, one per kind of file or line. Reading them needs no torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from levelfield.config import Experiment, with_recorded_keys
from levelfield.records._digest import digest
from levelfield.records._identity import Hyperparameters, NetworkIdentity

SETTINGS: tuple[str, ...] = ("separated", "concatenated")


class Record(BaseModel):
    """File or line of an experiment directory; unknown fields are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


MAX_NAME = 200  # characters; file systems allow 255 bytes


def _check_record_name(value: str) -> str:
    too_odd = len(value) > MAX_NAME or not value.isprintable()
    if value in ("", ".", "..") or set(value) & set("/\\\0") or too_odd:
        raise ValueError(f"{value[:MAX_NAME]!r} is not a valid name of a record")
    return value


# Name of a record in another record; it cannot lead out of the experiment directory.
RecordName = Annotated[str, AfterValidator(_check_record_name)]
OptionalRecordName = Annotated[str, AfterValidator(lambda value: value and _check_record_name(value))]


def _dump_score(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


# Test score; JSON has no infinity and no NaN, so these are the texts "inf", "-inf" and "nan" there.
TestScore = Annotated[float, PlainSerializer(_dump_score, when_used="json")]


class RunResult(Record):
    """Result of a run. It does not depend on time or machine, unless the status is "failed".

    Attributes:
        status: "complete"; "diverged" if the loss or a score was not finite; "failed" if the process died at
            every attempt.
        reason: Reason of a status other than "complete".
        best_epoch: Epoch with the best validation score.
        last_epoch: Last epoch that was trained.
        validation: Validation scores of the best epoch by metric.
        collapse: Diagnosis of a run that learned nothing; empty for others.
    """

    status: Literal["complete", "diverged", "failed"]
    reason: str = ""
    best_epoch: int = 0
    last_epoch: int = 0
    validation: dict[str, float] = Field(default_factory=dict)
    collapse: str = ""


class EpochLine(Record):
    """One evaluation of a run.

    Attributes:
        epoch: Epoch of the evaluation; 0 is before training.
        loss: Mean loss since the evaluation before; None before training.
        scores: Validation scores by metric.
        alike: Mean cosine between the embeddings of two validation images.
    """

    epoch: int
    loss: float | None
    scores: dict[str, float]
    alike: float | None = None


class Trial(Record):
    """One set of hyperparameters, trained on every fold.

    Attributes:
        number: Number in the search, from 0.
        hyperparameters: Hyperparameters of the trial.
        runs: Digests of its runs, fold by fold.
        fold_scores: Validation score of each fold; None for a fold that failed.
        score: Mean of the fold scores; None if a fold failed or the trial was pruned.
        reason: Reason for a missing score.
        estimate: Estimated score of a pruned trial; None for others.
        collapse: Diagnosis of its first run that learned nothing, if any.
    """

    number: int
    hyperparameters: Hyperparameters
    runs: tuple[RecordName, ...] = ()
    fold_scores: tuple[float | None, ...] = ()
    score: float | None = None
    reason: str = ""
    estimate: float | None = None
    collapse: str = ""

    @property
    def pruned(self) -> bool:
        """True if the trial was ended early because it could no longer win."""
        return self.estimate is not None


class Selection(Record):
    """Frozen choice of hyperparameters of one method.

    Attributes:
        method: Name of the method.
        search: Digest of the search; None for the baseline.
        trial: Number of the selected trial.
        hyperparameters: Hyperparameters of the selected trial.
        score: Validation score of the selected trial.
        network: Identity of the baseline's network; None for a method.
        failed: Reason if every trial failed; there is then no confirmation.
    """

    method: str
    search: RecordName | None = None
    trial: int | None = Field(default=None, ge=0)
    hyperparameters: Hyperparameters = Field(default_factory=dict)
    score: float | None = None
    network: NetworkIdentity | None = None
    failed: str | None = None

    @property
    def selection_id(self) -> str:
        """Digest of the selection, which names its confirmation; an empty ``failed`` is not part of it."""
        values = self.model_dump(mode="json")
        kept = {name: value for name, value in values.items() if name != "failed" or value}
        return digest(with_recorded_keys(kept))


class ScoreInterval(Record):
    """Mean over test queries with its 95% interval."""

    value: float
    low: float
    high: float


class RerankedScores(Record):
    """Test scores of a rerun's first model with one way of re-ranking.

    Attributes:
        name: Name of the re-ranking; "none" for the plain ranking.
        parameters: Parameters that were best on the validation classes.
        validation_gain: Gain on the validation classes.
        scores: Test scores by metric.
        gains: Gains over the plain ranking by metric.
    """

    name: str
    parameters: dict[str, int | float]
    validation_gain: float
    scores: dict[str, ScoreInterval]
    gains: dict[str, ScoreInterval]


class Rerun(Record):
    """Test scores of one rerun, or the reason why it failed.

    A score may be infinite or NaN: rho of a collapsed embedding is. Comparisons leave such a score out.

    Attributes:
        separated: Mean scores over the folds' models by metric.
        concatenated: Scores of the folds' concatenated embeddings by metric.
        folds: Scores of each fold's model.
        best_epochs: Best epoch of each fold's run; empty if the network was not trained.
        runs: Digests of the folds' runs; empty if the network was not trained.
        metric_sources: Code digest of each metric that is not part of this package. An edited metric is
            computed again.
        failed: Reason for missing scores.
        collapse: Diagnosis of the first run that learned nothing, if any.
        reranked: Scores with and without re-ranking; of a method's first rerun, if requested.
    """

    separated: dict[str, TestScore] = Field(default_factory=dict)
    concatenated: dict[str, TestScore] = Field(default_factory=dict)
    folds: tuple[dict[str, TestScore], ...] = ()
    best_epochs: tuple[int, ...] = ()
    runs: tuple[RecordName, ...] = ()
    metric_sources: dict[str, str] = Field(default_factory=dict)
    failed: str | None = None
    collapse: str = ""
    reranked: tuple[RerankedScores, ...] = ()

    def scores(self, setting: str) -> dict[str, float]:
        """Return the scores by metric of a setting, "separated" or "concatenated"."""
        return self.concatenated if setting == "concatenated" else self.separated


class MetricInfo(Record):
    """Card of a metric, so that readers of records need not import the metric.

    Attributes:
        name: Name in the experiment file.
        label: Label in tables.
        unit: "percent" for fractions that tables print times 100, "" for plain numbers.
        higher_is_better: Direction of the metric; None if it has none.
    """

    name: str
    label: str
    unit: str = ""
    higher_is_better: bool | None = None

    @property
    def scale(self) -> float:
        """Factor from the value to the printed number."""
        return 100.0 if self.unit == "percent" else 1.0

    @property
    def sign(self) -> int:
        """-1 if a lower value is better, else 1; ``sign * value`` is larger for the better value."""
        return -1 if self.higher_is_better is False else 1

    def shown(self, value: float, sign: str = "") -> str:
        """Return a value as tables print it; ``sign="+"`` prints the sign of a difference.

        Example:
            >>> MetricInfo(name="map_at_r", label="MAP@R", unit="percent").shown(0.1234)
            '12.34'
        """
        return f"{self.scale * value:{sign}.{2 if self.unit == 'percent' else 4}f}"

    @property
    def axis(self) -> str:
        """Label with unit."""
        return f"{self.label} (%)" if self.unit == "percent" else self.label


class ExperimentRecord(Record):
    """Contents of an experiment directory by method: ``experiment.json``.

    Attributes:
        experiment: The experiment as last resolved, without local paths; see :func:`dump_experiment`.
        split: Description of the split plan.
        leaky: Whether search and selection see the test set on purpose.
        baseline: Name of the baseline.
        metrics: Metrics of the test set, and the selection metric; ``measures`` in the file.
        searches: Digests of each method's searches.
        selections: Names of the frozen selections of each method, in the order of its searches.
        plugins: Digest of each plug-in file and entry point that was loaded.
        notes: Adaptations to the data, one sentence each.
        contents: Digest of the content of all images by the fingerprint of their dataset, as they were when
            the dataset was first used here. Empty for datasets whose fingerprint covers everything.
    """

    model_config = ConfigDict(populate_by_name=True)

    experiment: Experiment
    split: str
    leaky: bool
    baseline: str
    metrics: tuple[MetricInfo, ...] = Field(default=(), alias="measures")
    searches: dict[str, tuple[RecordName, ...]]
    selections: dict[str, tuple[RecordName, ...]]
    plugins: dict[str, str] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
    contents: dict[str, str] = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _without_empty_contents(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        return {name: value for name, value in values.items() if name != "contents" or value}

    def stated(self) -> dict[str, Any]:
        """Return what reports state and no name of a record depends on: a revision repeats it."""
        shown = {"split", "leaky", "baseline", "metrics", "notes"}
        return self.model_dump(mode="json", include=shown, by_alias=True)

    def selection_ids(self, method: str) -> tuple[str, ...]:
        """Return the digests of a method's selections, which name its confirmations."""
        return tuple(name.rpartition("-")[2] for name in self.selections[method])

    def metric(self, name: str) -> MetricInfo | None:
        """Return the card of a metric; None if it is not recorded."""
        return next((metric for metric in self.metrics if metric.name == name), None)


# Events of the ledger.
EVENT_LEAKY = "leaky: search and selection are shown the test set"
EVENT_MORE_RERUNS = "reruns added after a look"
EVENT_MORE_SEARCHES = "search added after a look"
EVENT_GALLERY = "opened for pictures"
EVENT_SEALED = "scores sealed"
EVENT_FROZEN = "selections frozen"
EVENT_PLAN = "plan registered"
EVENT_DEPARTED = "departed from the plan"
PLAN_SEAL = "plan"  # name of the plan's digest among the seals of a line


class LedgerLine(Record):
    """One opening of the test set. Lines are chained: each holds the digest of the line before.

    Attributes:
        time: Time in UTC.
        host: Host name of the machine.
        commit: Commit of levelfield.
        method: Name of the method; "all" for the whole experiment.
        selection: Digest of the frozen selection.
        event: Reason of the opening.
        reruns: Numbers of the reruns that it was opened for.
        plugins: Digest of each plug-in that was loaded.
        sealed: Digest of each file of scores that was computed since the last seal, by its path in
            ``confirmations``; of trials, selections and revisions, by name (:func:`seal_records`); of the
            plan.
        note: Sentence for the report, such as the reason of a departure from the plan.
        departures: Differences from the plan, one phrase each.
        previous: Digest of the line before; empty in the first line.

    If empty, ``sealed``, ``note`` and ``departures`` are left out of the line and of its digest.
    """

    time: str
    host: str
    commit: str | None
    method: str
    selection: OptionalRecordName
    event: str
    reruns: tuple[int, ...] = ()
    plugins: dict[str, str] = Field(default_factory=dict)
    sealed: dict[str, str] = Field(default_factory=dict)
    note: str = ""
    departures: tuple[str, ...] = ()
    previous: str = ""

    @model_serializer(mode="wrap")
    def _without_empty_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = handler(self)
        optional = ("sealed", "note", "departures")
        return {name: value for name, value in values.items() if name not in optional or value}

    @property
    def line_id(self) -> str:
        """Digest of the line, which the next line holds."""
        return digest(self.model_dump(mode="json"))


class LedgerHead(Record):
    """Number of lines of a ledger and digest of the last line, so that a cut ledger is found."""

    lines: int = Field(ge=1)
    last: str

    def fits(self, ledger: Sequence[LedgerLine]) -> bool:
        """Return True if the ledger has all counted lines and the last of them is unchanged."""
        return len(ledger) >= self.lines and ledger[self.lines - 1].line_id == self.last


class SearchLuck(Record):
    """Variation between the repeated searches of one method, by the metric that they were tuned for.

    Attributes:
        dataset: Name of the dataset.
        trunk: Name of the trunk.
        mode: Mode of the trunk.
        method: Name of the method.
        metric: Metric of ``means``.
        trials: Number of trials of one search.
        reruns: Number of reruns of each search's selection.
        means: Test score of each search's selection, as the mean over its reruns.
        between: Standard deviation of the searches' scores.
        within: Standard deviation of one rerun's score, within searches.
        pairs: Number of pairs of searches.
        different: Number of pairs that a comparison without repeats would call different.
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
    """The experiment at a time, with what reports state about it; the ledger seals it.

    Attributes:
        time: Time of the revision.
        experiment: The experiment.
        plugins: Digests of its plug-ins.
        ledger_lines: Length of the ledger at that time, which orders both whatever the clock says; None in
            records of older versions.
        stated: What experiment.json states besides, see :meth:`ExperimentRecord.stated`; None in records of
            older versions.
    """

    time: str
    experiment: Experiment
    plugins: dict[str, str] = Field(default_factory=dict)
    ledger_lines: int | None = Field(default=None, ge=0)
    stated: dict[str, Any] | None = None


class Environment(Record):
    """Versions and machine of a process."""

    python: str
    versions: dict[str, str | None]
    commit: str | None
    host: str
    platform: str
    processor: str
    cores: int | None


class Provenance(Environment):
    """Provenance of a run's record. Never part of an identity."""

    threads: int
    device: str
    plugins: dict[str, str] = Field(default_factory=dict)
    finished: str
    seconds: float


def dump_experiment(experiment: Experiment) -> dict[str, Any]:
    """Return the recorded fields of an experiment: without engine, trackers, plug-in paths and addresses.

    Example:
        >>> from levelfield.config import Experiment
        >>> values = dump_experiment(Experiment.build(name="x", preset="demo", plugins=["a.py"]))
        >>> "engine" in values, "plugins" in values, values["name"]
        (False, False, 'x')
    """
    return experiment.model_dump(
        mode="json",
        exclude={"engine": True, "track": True, "plugins": True, "dataset": {"root"}, "search": {"storage"}},
    )
