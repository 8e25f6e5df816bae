"""Comparison of models by their scores of single queries; no experiment is needed.

The way is the same as for the methods of an experiment: `levelfield.stats.judge` compares all models, and
`conclude` says which one to use. A model may have several seeds, one row of values each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from levelfield.analysis._analyze import equivalence_margin, group_alike
from levelfield.analysis._conclusion import Conclusion, conclude
from levelfield.analysis._metric_info import metric_info
from levelfield.analysis._model_differences import (
    ClassDifference,
    QueryDifference,
    class_differences,
    query_differences,
)
from levelfield.analysis._model_scores import Array, ModelScores
from levelfield.analysis._pair_result import PairResult
from levelfield.core.errors import UsageError, did_you_mean
from levelfield.records import MetricInfo
from levelfield.stats import Interval, Judgment, comparison_half_widths, judge, rerun_table, score_table

POWER = 0.8  # a detectable difference is found this often
PREFERRED = "map_at_r"  # metric of the verdict, if it was computed
ONE_FILE = "Each model was scored once: verdicts are about these models, not about training them again."
NO_CLASSES = "Queries have no classes: they count as independent, and verdicts are too sure if they are not."
ONE_CLASS = "All queries are of one class, so the chance in the choice of classes is unknown."
TWO_SEEDS = "Two seeds of a model may agree by luck: up to 7% of comparisons without differences show one."


@dataclass(frozen=True, eq=False)
class ModelComparison:
    """Scores of models on the same queries, and the verdicts on all pairs of models.

    Attributes:
        models: Scores by model, in the order given.
        classes: Class of each query (Q); None if queries have no classes.
        names: Name of each query (Q), such as the path of its image; None if they have none.
        metric: Metric of ``pairs`` and of the conclusion.
        metric_infos: Label, unit and direction by metric.
        judgments: Verdicts by metric. A model whose score is infinite is left out, as is a metric without a
            finite score.
        pairs: All pairs of models, best models first. The better mean of a pair comes first.
        notes: Sentences to add to the conclusion.
        remarks: Remarks on the input, one sentence each; they are part of ``caveats``.
    """

    models: Mapping[str, ModelScores]
    classes: NDArray[Any] | None
    names: Sequence[str] | None
    metric: str
    metric_infos: Mapping[str, MetricInfo]
    judgments: Mapping[str, Judgment]
    pairs: tuple[PairResult, ...]
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def metric_info(self) -> MetricInfo:
        """Label, unit and direction of ``metric``."""
        return self.metric_infos[self.metric]

    @property
    def judgment(self) -> Judgment:
        """Verdicts for ``metric``."""
        return self.judgments[self.metric]

    @property
    def means(self) -> dict[str, float]:
        """Mean score of each model, best first."""
        return {estimate.method: estimate.mean for estimate in self.judgment.estimates}

    @property
    def scored(self) -> NDArray[np.bool_]:
        """Queries that every model has a value for (Q); empty without values per query."""
        tables = [own.per_query[self.metric] for own in self.models.values() if self.metric in own.per_query]
        return np.asarray(np.isfinite(np.concatenate(tables)).all(axis=0) if tables else [], dtype=np.bool_)

    def leaders(self, metric: str) -> frozenset[str]:
        """Return the models that no other was found better than; empty for a metric without a direction."""
        directed = self.metric_infos[metric].higher_is_better is not None
        return self.judgments[metric].leaders if directed and metric in self.judgments else frozenset()

    def interval(self, model: str, metric: str) -> Interval:
        """Return a model's mean with its interval for comparison.

        Two models differ if their intervals do not overlap, up to rounding.
        """
        mean = float(np.mean(self.models[model].scores(metric)))
        half = self._half_widths.get(metric, {}).get(model)
        return Interval(mean, math.nan, 1) if half is None else Interval(mean, half, 2)

    def interval_alone(self, model: str, metric: str) -> Interval:
        """Return a model's mean with its 95% interval for other classes of this kind, and other seeds.

        It says how well the model does on its own. All models share the test classes, so it is too wide to
        compare them.
        """
        judgment = self.judgments.get(metric)
        for found in () if judgment is None else judgment.estimates:
            half = found.high - found.mean
            if found.method == model and math.isfinite(half):
                return Interval(found.mean, half, 2)
        return Interval(float(np.mean(self.models[model].scores(metric))), math.nan, 1)

    @cached_property
    def _half_widths(self) -> dict[str, dict[str, float]]:
        return {metric: comparison_half_widths(found.pairs) for metric, found in self.judgments.items()}

    @property
    def closest(self) -> tuple[str, str] | None:
        """The best model and the next one whose queries differ from it; None if there is none."""
        first, *others = self.means
        return next(((first, name) for name in others if self.query_differences(first, name, limit=1)), None)

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Largest groups of models, adjacent by mean, in which no two models were found different."""
        return group_alike(list(self.means), self.pairs)

    @property
    def conclusion(self) -> Conclusion:
        """Sentences that say which model to use and how sure that is."""
        return conclude(self.judgment, self.metric_info, noun="model", notes=self.notes)

    @property
    def detectable(self) -> float | None:
        """True difference between two models that is found four times in five, as a score.

        :attr:`Conclusion.visible` is smaller: an observed difference of that size is called a difference, but
        a true one of that size is missed half of the time. None if no pair was tested.
        """
        found = []
        for pair in self.judgment.pairs:
            half = pair.high - pair.difference if pair.difference >= 0 else pair.difference - pair.low
            if math.isfinite(half) and half > 0 and math.isfinite(pair.df):
                critical = float(stdtrit(pair.df, 1 - self.judgment.alpha / 2))
                found.append(half * (1 + float(stdtrit(pair.df, POWER)) / critical))
        return float(np.median(found)) if found else None

    @property
    def caveats(self) -> tuple[str, ...]:
        """Limits of the verdicts, one sentence each."""
        found = [*([self.judgment.refusal] if self.judgment.refusal else []), *self.remarks]
        if self.classes is None:
            found.append(NO_CLASSES)
        elif len(self.scored) and len(np.unique(self.classes[self.scored])) == 1:
            found.append(ONE_CLASS)
        seeds = {name: own.seeds for name, own in self.models.items()}
        if max(seeds.values()) == 1:
            found.append(ONE_FILE)
            return tuple(found)
        single = [name for name, count in seeds.items() if count == 1]
        if single:
            found.append(
                f"{', '.join(single)}: scored once, so the verdict is about this model, "
                "not about training it again."
            )
        if max(seeds.values()) == 2:
            found.append(TWO_SEEDS)
        return tuple(found)

    def class_differences(self, first: str, second: str, *, limit: int | None = 10) -> list[ClassDifference]:
        """Return the classes on which two models differ most, the largest difference first."""
        if self.classes is None:
            return []
        return class_differences(*self._values(first, second), classes=self.classes, limit=limit)

    def query_differences(self, first: str, second: str, *, limit: int | None = 10) -> list[QueryDifference]:
        """Return the queries on which two models differ most, the largest difference first."""
        return query_differences(
            *self._values(first, second), classes=self.classes, names=self.names, limit=limit
        )

    def _values(self, first: str, second: str) -> tuple[Array, Array]:
        for name in (first, second):
            if name not in self.models:
                raise UsageError(f'no model "{name}" in the comparison{did_you_mean(name, self.models)}')
        if any(self.metric not in self.models[name].per_query for name in (first, second)):
            return np.zeros(0), np.zeros(0)
        return (
            self.models[first].mean_per_query(self.metric),
            self.models[second].mean_per_query(self.metric),
        )


def compare_models(
    models: Mapping[str, ModelScores],
    *,
    classes: ArrayLike | None,
    names: Sequence[str] | None = None,
    metric: str | None = None,
    equivalence: float | None = None,
    alpha: float = 0.05,
    notes: Sequence[str] = (),
    remarks: Sequence[str] = (),
) -> ModelComparison:
    """Compare models by their scores on the same queries.

    Args:
        models: Scores by model. All models have the same metrics and queries.
        classes: Class of each query (Q). Queries of one class are not independent: the verdicts count classes
            as chance. None if queries have no classes; groups of similar queries may take their place.
        names: Name of each query (Q), for lists of queries.
        metric: Metric of the verdict. Defaults to MAP@R if it is there, else the first metric.
        equivalence: Largest difference that does not matter, as tables print it. Defaults to 0.5 points for
            metrics in percent; 0 turns equivalence off.
        alpha: Probability of any false difference among all pairs of models.
        notes: Sentences to add to the conclusion.
        remarks: Sentences to add to the caveats.

    Raises:
        UsageError: No model is given, or the models have different metrics or queries.

    Example:
        >>> random = np.random.default_rng(0)
        >>> hard = random.random(300)
        >>> better = ModelScores({"map_at_r": (hard + 0.1)[None]})
        >>> worse = ModelScores({"map_at_r": (hard + 0.01 * random.normal(size=300))[None]})
        >>> found = compare_models({"new": better, "old": worse}, classes=np.arange(300) // 10)
        >>> print(found.conclusion.text)
        Use new: it beats every other model (by 10.0 points of MAP@R over old, 9.9 to 10.1).
    """
    metrics = _common_metrics(models)
    if metric is not None and metric not in metrics:
        raise UsageError(f'metric "{metric}" was not computed{did_you_mean(metric, metrics)}')
    main = metric or (PREFERRED if PREFERRED in metrics else metrics[0])
    labels = None if classes is None else np.asarray(classes)
    infos = {name: metric_info(name) for name in metrics}
    judgments = {}
    for name, info in infos.items():
        margin = equivalence_margin(equivalence, info) if name == main else None
        found = _judge(models, labels, info, equivalence=margin, alpha=alpha)
        if found is not None:
            judgments[name] = found
    if main not in judgments:
        raise UsageError(f'no model has a finite "{main}"; choose another metric')
    pairs = [
        PairResult(
            pair,
            judgments[main].classes,
            min(models[pair.first].seeds, models[pair.second].seeds),
            infos[main],
        )
        for pair in judgments[main].pairs
    ]
    return ModelComparison(
        models=dict(models),
        classes=labels,
        names=names,
        metric=main,
        metric_infos=infos,
        judgments=judgments,
        pairs=tuple(pairs),
        notes=tuple(notes),
        remarks=tuple(remarks),
    )


def _common_metrics(models: Mapping[str, ModelScores]) -> list[str]:
    if not models:
        raise UsageError("there is no model to compare; give at least one")
    sets = {name: [*own.per_query, *own.whole] for name, own in models.items()}
    first = next(iter(sets))
    for name, found in sets.items():
        if set(found) != set(sets[first]) or not found:
            raise UsageError(
                f'"{name}" has the metrics {", ".join(found) or "none"}, "{first}" has '
                f"{', '.join(sets[first])}; score all models by the same metrics"
            )
    return sets[first]


def _judge(
    models: Mapping[str, ModelScores],
    classes: NDArray[Any] | None,
    info: MetricInfo,
    *,
    equivalence: float | None,
    alpha: float,
) -> Judgment | None:
    """Judge all models by one metric; return None if no model has a finite score.

    A model with one seed is fixed: it scores the same every time.
    """
    models = {name: own for name, own in models.items() if np.isfinite(own.scores(info.name)).all()}
    if not models:
        return None
    fixed = [name for name, own in models.items() if own.seeds == 1]
    if all(info.name in own.per_query for own in models.values()):
        rows = {name: own.per_query[info.name] for name, own in models.items()}
        table = score_table(rows, classes=classes, fixed=fixed)
    else:
        table = rerun_table({name: own.scores(info.name) for name, own in models.items()}, fixed=fixed)
    found = judge(
        table, alpha=alpha, equivalence=equivalence, higher_is_better=info.higher_is_better is not False
    )
    # the caveats of an experiment are about searches; those of models are in ModelComparison.caveats
    return replace(found, caveats=())
