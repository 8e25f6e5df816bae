"""Comparison of re-ranking methods: scores with and without, with parameters tuned on development data."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.seeds import numpy_generator
from levelfield.retrieval.rerank._sets import RetrievalSet
from levelfield.retrieval.rerank.database_augmentation import augment_database
from levelfield.retrieval.rerank.diffusion import rerank_diffusion
from levelfield.retrieval.rerank.k_reciprocal import rerank_k_reciprocal
from levelfield.retrieval.rerank.query_expansion import expand_queries
from levelfield.retrieval.rerank.ranking import (
    listed_depth,
    nearest,
    required_depth,
    score_listed_ranking,
    score_ranking,
)
from levelfield.retrieval.rerank.whitening import fit_whitening

Values = dict[str, npt.NDArray[np.float64]]
Number = int | float
METRICS = ("map_at_100", "map_at_r", "precision_at_1")
RESAMPLES = 2000


RankFunction = Callable[..., Tensor]  # (data, count, fitted_to, **parameters) -> rows, Q x count


@dataclass(frozen=True)
class Reranker:
    """Re-ranking method with its parameter grid, which is searched on development data."""

    rank: RankFunction
    grid: Mapping[str, Sequence[Number]] = field(default_factory=dict)
    paper: str = ""

    def settings(self) -> list[dict[str, Number]]:
        """Return every combination of parameters."""
        return [dict(zip(self.grid, each, strict=True)) for each in itertools.product(*self.grid.values())]


def _plain(data: RetrievalSet, count: int, fitted_to: Tensor) -> Tensor:
    return nearest(data.queries, data.candidates, count, exclude_self=data.excludes_self)[0]


def _whitened(data: RetrievalSet, count: int, fitted_to: Tensor, *, power: float, share: float) -> Tensor:
    widest = min(len(fitted_to) - 1, fitted_to.shape[1])
    whiten = fit_whitening(fitted_to, size=max(1, round(share * widest)), power=power)
    return _plain(data.replace_vectors(whiten(data.queries), whiten(data.candidates)), count, fitted_to)


def _expanded(
    data: RetrievalSet, count: int, fitted_to: Tensor, *, neighbors: int, alpha: float = 0
) -> Tensor:
    queries = expand_queries(
        data.queries, data.candidates, neighbors=neighbors, alpha=alpha, exclude_self=data.excludes_self
    )
    return nearest(queries, data.candidates, count, exclude_self=data.excludes_self)[0]


def _augmented(data: RetrievalSet, count: int, fitted_to: Tensor, *, neighbors: int, alpha: float) -> Tensor:
    # If the queries are the gallery, each query is blended into the rows near it, unlike a new query. Scores
    # with a separate gallery are more reliable.
    candidates = augment_database(data.candidates, neighbors=neighbors, alpha=alpha)
    return nearest(data.queries, candidates, count, exclude_self=data.excludes_self)[0]


def _k_reciprocal(
    data: RetrievalSet, count: int, fitted_to: Tensor, *, k1: int, k2: int, weight: float
) -> Tensor:
    return rerank_k_reciprocal(
        data.queries,
        data.candidates,
        count=count,
        k1=k1,
        k2=k2,
        weight=weight,
        exclude_self=data.excludes_self,
    )


def _diffused(
    data: RetrievalSet, count: int, fitted_to: Tensor, *, neighbors: int, gamma: float, flow: float
) -> Tensor:
    return rerank_diffusion(
        data.queries,
        data.candidates,
        count=count,
        neighbors=neighbors,
        gamma=gamma,
        flow=flow,
        exclude_self=data.excludes_self,
    )


PLAIN = Reranker(_plain)
RERANKERS: dict[str, Reranker] = {
    "whitening": Reranker(
        _whitened, {"power": (0.25, 0.5, 1.0), "share": (0.25, 0.5, 1.0)}, "Jegou, Chum 2012"
    ),
    "aqe": Reranker(_expanded, {"neighbors": (1, 2, 4, 8)}, "Chum et al. 2007"),
    "alpha_qe": Reranker(
        _expanded, {"neighbors": (2, 4, 8, 16), "alpha": (1.0, 3.0, 6.0)}, "Radenovic et al. 2019"
    ),
    "dba": Reranker(
        _augmented, {"neighbors": (1, 2, 4, 8), "alpha": (0.0, 3.0)}, "Arandjelovic, Zisserman 2012"
    ),
    "k_reciprocal": Reranker(
        _k_reciprocal, {"k1": (10, 20, 40), "k2": (3, 6), "weight": (0.1, 0.3, 0.6)}, "Zhong et al. 2017"
    ),
    "diffusion": Reranker(
        _diffused, {"neighbors": (10, 30), "gamma": (3.0,), "flow": (0.5, 0.9)}, "Iscen et al. 2017"
    ),
}


@dataclass(frozen=True)
class MeanEstimate:
    """Mean over queries with its 95% interval, from a bootstrap over classes."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class RerankingResult:
    """Scores of one re-ranking method.

    Attributes:
        name: Name of the method; "none" for the plain ranking.
        parameters: Best parameters on the development data.
        development_gain: Gain on the development data, in the metric used for tuning.
        scores: Value of each metric on the scored data.
        gains: Difference of each metric to the plain ranking.
    """

    name: str
    parameters: dict[str, Number]
    development_gain: float
    scores: dict[str, MeanEstimate]
    gains: dict[str, MeanEstimate]


def compare_rerankers(
    data: RetrievalSet,
    development: RetrievalSet,
    *,
    names: Sequence[str] | None = None,
    metrics: Sequence[str] = METRICS,
    tune_for: str = "map_at_r",
    seed: int = 0,
) -> list[RerankingResult]:
    """Score ``data`` with and without each re-ranking method.

    Every method ranks the whole gallery, so that no method is limited to the first rows of the plain ranking.
    Only ``development`` is used for tuning: parameters are chosen by ``tune_for``, and whitening is fitted
    there. During tuning whitening is fitted on half of the classes and parameters are chosen on the other
    half; the final whitening uses all classes. Intervals are from a bootstrap over classes, since queries of
    one class are not independent.

    Args:
        data: Data to score, such as the test set.
        development: Data of other classes, such as those of training and validation.
        names: Names from ``RERANKERS``. Defaults to all.
        metrics: Retrieval metrics.
        tune_for: Metric for the choice of parameters.
        seed: Seed of the bootstrap.

    Returns:
        The plain ranking first, then one result per name.
    """
    chosen = list(RERANKERS) if names is None else list(names)
    for name in chosen:
        if name not in RERANKERS:
            raise UsageError(f'unknown re-ranking "{name}"{did_you_mean(name, RERANKERS)}')
    data, development = _unit(data), _unit(development)
    if set(data.labels.tolist()) & set(development.labels.tolist()):
        raise UsageError(
            "the development data shares classes with the scored data; pass development data of other classes"
        )
    classes = torch.tensor(sorted(set(development.labels.tolist())))
    fit, tune = development.select_classes(classes[::2]), development.select_classes(classes[1::2])
    plain = _score(PLAIN, {}, data, development.queries, metrics)
    before = _mean(_score(PLAIN, {}, tune, fit.queries, [tune_for])[tune_for])
    draws = _class_draws(data.labels, plain, seed)
    results = [_result("none", {}, 0.0, values=plain, plain=plain, draws=draws)]
    for name in chosen:
        reranker = RERANKERS[name]
        tried = [
            (_mean(_score(reranker, setting, tune, fit.queries, [tune_for])[tune_for]), setting)
            for setting in reranker.settings()
        ]
        best, setting = max(tried, key=lambda pair: pair[0])
        values = _score(reranker, setting, data, development.queries, metrics)
        results.append(_result(name, setting, best - before, values=values, plain=plain, draws=draws))
    return results


def _unit(data: RetrievalSet) -> RetrievalSet:
    return data.replace_vectors(
        F.normalize(data.queries.float(), dim=1), F.normalize(data.candidates.float(), dim=1)
    )


def _score(
    reranker: Reranker,
    setting: Mapping[str, Number],
    data: RetrievalSet,
    fitted_to: Tensor,
    metrics: Sequence[str],
) -> Values:
    # All methods rank the whole gallery; the metrics need only the first rows of these rankings.
    if data.relevant is not None:
        items = len(data.candidates) - int(data.excludes_self)
        deep = listed_depth(metrics, data.relevant, data.ignored, items)
        rows = reranker.rank(data, deep, fitted_to, **setting)
        return score_listed_ranking(rows, data.relevant, data.ignored, metrics)
    count = required_depth(metrics, data.labels, data.candidate_labels, exclude_self=data.excludes_self)
    rows = reranker.rank(data, count, fitted_to, **setting)
    return score_ranking(rows, data.labels, data.candidate_labels, metrics, exclude_self=data.excludes_self)


def _mean(values: npt.NDArray[np.float64]) -> float:
    return float(np.nanmean(values))


@dataclass(frozen=True, eq=False)
class _ClassDraws:
    """Bootstrap draws over classes.

    Attributes:
        picks: Number of times that each class is drawn, resamples x C.
        owner: Class of each scored query.
        scored: Mask of the scored queries.
    """

    picks: npt.NDArray[np.float64]
    owner: npt.NDArray[np.int64]
    scored: npt.NDArray[np.bool_]

    def estimate(self, values: npt.NDArray[np.float64]) -> MeanEstimate:
        counted = values[self.scored]
        sums, sizes = np.bincount(self.owner, counted), np.bincount(self.owner)
        low, high = np.quantile(self.picks @ sums / (self.picks @ sizes), [0.025, 0.975])
        return MeanEstimate(float(counted.mean()), float(low), float(high))


def _class_draws(labels: Tensor, values: Values, seed: int) -> _ClassDraws:
    scored = ~np.isnan(next(iter(values.values())))
    classes, owner = np.unique(labels.numpy()[scored], return_inverse=True)
    generator = numpy_generator("rerank", "classes", seed)
    picks = generator.multinomial(len(classes), np.full(len(classes), 1 / len(classes)), size=RESAMPLES)
    return _ClassDraws(picks.astype(np.float64), owner, scored)


def _result(
    name: str, setting: dict[str, Number], gain: float, *, values: Values, plain: Values, draws: _ClassDraws
) -> RerankingResult:
    return RerankingResult(
        name=name,
        parameters=setting,
        development_gain=gain,
        scores={metric: draws.estimate(each) for metric, each in values.items()},
        gains={metric: draws.estimate(each - plain[metric]) for metric, each in values.items()},
    )
