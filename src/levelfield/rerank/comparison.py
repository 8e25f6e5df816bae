"""Does it help? Scores with and without, parameters chosen on development data, intervals of the gains."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.errors import UsageError, did_you_mean
from levelfield.metrics.files import EmbeddingFile
from levelfield.rerank.database_augmentation import augment_database
from levelfield.rerank.diffusion import rerank_diffusion
from levelfield.rerank.k_reciprocal import rerank_k_reciprocal
from levelfield.rerank.query_expansion import expand_queries
from levelfield.rerank.ranking import depth_for, nearest, score_ranking
from levelfield.rerank.whitening import fit_whitening
from levelfield.seeds import numpy_generator

Values = dict[str, npt.NDArray[np.float64]]
Number = int | float
METRICS = ("map_at_100", "map_at_r", "precision_at_1")
RESAMPLES = 2000


@dataclass(frozen=True, eq=False)
class Pictures:
    """Embeddings to be searched and searched for.

    Attributes:
        queries: Unit vectors, Q x D.
        labels: Their classes, int64 (Q,).
        gallery: Unit vectors, N x D; None if the queries are the gallery, each excluded from its own search.
        gallery_labels: Their classes, int64 (N,).
    """

    queries: Tensor
    labels: Tensor
    gallery: Tensor | None = None
    gallery_labels: Tensor | None = None

    @property
    def itself(self) -> bool:
        """Whether the queries are the gallery."""
        return self.gallery is None

    @property
    def items(self) -> Tensor:
        """Where to search."""
        return self.queries if self.gallery is None else self.gallery

    @property
    def item_labels(self) -> Tensor:
        """The classes of the items."""
        return self.labels if self.gallery_labels is None else self.gallery_labels

    def changed(self, queries: Tensor, items: Tensor | None = None) -> Pictures:
        """The same with other vectors."""
        gallery = None if self.gallery is None else items
        return Pictures(queries, self.labels, gallery, self.gallery_labels)

    def of_classes(self, classes: Tensor) -> Pictures:
        """The pictures of these classes only."""
        kept = torch.isin(self.labels, classes)
        if self.gallery is None or self.gallery_labels is None:
            return Pictures(self.queries[kept], self.labels[kept])
        held = torch.isin(self.gallery_labels, classes)
        return Pictures(self.queries[kept], self.labels[kept], self.gallery[held], self.gallery_labels[held])


Rank = Callable[..., Tensor]  # (pictures, count, fitted_to, **parameters) -> rows, Q x count


@dataclass(frozen=True)
class Reranker:
    """A way to rank, and the parameters that are tried on development data."""

    rank: Rank
    grid: Mapping[str, Sequence[Number]] = field(default_factory=dict)
    paper: str = ""

    def settings(self) -> list[dict[str, Number]]:
        """Every combination of parameters."""
        return [dict(zip(self.grid, each, strict=True)) for each in itertools.product(*self.grid.values())]


def _plain(pictures: Pictures, count: int, fitted_to: Tensor) -> Tensor:
    return nearest(pictures.queries, pictures.items, count, itself=pictures.itself)[0]


def _whitened(pictures: Pictures, count: int, fitted_to: Tensor, *, power: float, share: float) -> Tensor:
    widest = min(len(fitted_to) - 1, fitted_to.shape[1])
    whiten = fit_whitening(fitted_to, size=max(1, round(share * widest)), power=power)
    return _plain(pictures.changed(whiten(pictures.queries), whiten(pictures.items)), count, fitted_to)


def _expanded(
    pictures: Pictures, count: int, fitted_to: Tensor, *, neighbours: int, alpha: float = 0
) -> Tensor:
    queries = expand_queries(
        pictures.queries, pictures.items, neighbours=neighbours, alpha=alpha, itself=pictures.itself
    )
    return nearest(queries, pictures.items, count, itself=pictures.itself)[0]


def _augmented(pictures: Pictures, count: int, fitted_to: Tensor, *, neighbours: int, alpha: float) -> Tensor:
    # Where queries are the gallery, a query is blended into rows near it, as a stranger's would not be:
    # scores with a gallery of its own are the ones to trust.
    items = augment_database(pictures.items, neighbours=neighbours, alpha=alpha)
    return nearest(pictures.queries, items, count, itself=pictures.itself)[0]


def _friends(pictures: Pictures, count: int, fitted_to: Tensor, *, k1: int, k2: int, weight: float) -> Tensor:
    return rerank_k_reciprocal(
        pictures.queries, pictures.items, count=count, k1=k1, k2=k2, weight=weight, itself=pictures.itself
    )


def _diffused(
    pictures: Pictures, count: int, fitted_to: Tensor, *, neighbours: int, gamma: float, flow: float
) -> Tensor:
    return rerank_diffusion(
        pictures.queries,
        pictures.items,
        count=count,
        neighbours=neighbours,
        gamma=gamma,
        flow=flow,
        itself=pictures.itself,
    )


PLAIN = Reranker(_plain)
RERANKERS: dict[str, Reranker] = {
    "whitening": Reranker(
        _whitened, {"power": (0.25, 0.5, 1.0), "share": (0.25, 0.5, 1.0)}, "Jegou, Chum 2012"
    ),
    "aqe": Reranker(_expanded, {"neighbours": (1, 2, 4, 8)}, "Chum et al. 2007"),
    "alpha_qe": Reranker(
        _expanded, {"neighbours": (2, 4, 8, 16), "alpha": (1.0, 3.0, 6.0)}, "Radenovic et al. 2019"
    ),
    "dba": Reranker(
        _augmented, {"neighbours": (1, 2, 4, 8), "alpha": (0.0, 3.0)}, "Arandjelovic, Zisserman 2012"
    ),
    "k_reciprocal": Reranker(
        _friends, {"k1": (10, 20, 40), "k2": (3, 6), "weight": (0.1, 0.3, 0.6)}, "Zhong et al. 2017"
    ),
    "diffusion": Reranker(
        _diffused, {"neighbours": (10, 30), "gamma": (3.0,), "flow": (0.5, 0.9)}, "Iscen et al. 2017"
    ),
}


@dataclass(frozen=True)
class Estimate:
    """A mean over queries with its 95% interval, classes drawn anew."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Effect:
    """What one way of re-ranking does.

    Attributes:
        name: "none" for the plain ranking.
        parameters: Those that were best on the development data.
        development_gain: What it gained there, in the measure that chose the parameters.
        scores: Each measure on the pictures that were to be searched.
        gains: Each measure's difference to the plain ranking.
    """

    name: str
    parameters: dict[str, Number]
    development_gain: float
    scores: dict[str, Estimate]
    gains: dict[str, Estimate]


def compare_rerankers(
    pictures: Pictures,
    development: Pictures,
    *,
    names: Sequence[str] | None = None,
    metrics: Sequence[str] = METRICS,
    tune_for: str = "map_at_r",
    seed: int = 0,
) -> list[Effect]:
    """Score ``pictures`` with and without each way of re-ranking.

    Everything is chosen on ``development``: parameters by ``tune_for``, whitening fitted there (half of its
    classes while parameters are chosen on the other half, all of them in the end). Intervals come from
    drawing classes anew, since queries of one class are not independent.

    Args:
        pictures: What is to be scored, such as the test set.
        development: Other classes, such as those of training and validation.
        names: Which ways; all by default. See ``RERANKERS``.
        metrics: Retrieval measures.
        tune_for: The measure that parameters are chosen by.
        seed: Of the bootstrap.

    Returns:
        The plain ranking first, then one effect per name.
    """
    chosen = list(RERANKERS) if names is None else list(names)
    for name in chosen:
        if name not in RERANKERS:
            raise UsageError(f'unknown re-ranking "{name}"{did_you_mean(name, RERANKERS)}')
    pictures, development = _unit(pictures), _unit(development)
    if set(pictures.labels.tolist()) & set(development.labels.tolist()):
        raise UsageError(
            "the development data shares classes with the data to be scored; choose on other classes"
        )
    classes = torch.tensor(sorted(set(development.labels.tolist())))
    fit, judge = development.of_classes(classes[::2]), development.of_classes(classes[1::2])
    plain = _score(PLAIN, {}, pictures, development.queries, metrics)
    before = _mean(_score(PLAIN, {}, judge, fit.queries, [tune_for])[tune_for])
    draws = _class_draws(pictures.labels, plain, seed)
    effects = [_effect("none", {}, 0.0, values=plain, plain=plain, draws=draws)]
    for name in chosen:
        reranker = RERANKERS[name]
        tried = [
            (_mean(_score(reranker, setting, judge, fit.queries, [tune_for])[tune_for]), setting)
            for setting in reranker.settings()
        ]
        best, setting = max(tried, key=lambda pair: pair[0])
        values = _score(reranker, setting, pictures, development.queries, metrics)
        effects.append(_effect(name, setting, best - before, values=values, plain=plain, draws=draws))
    return effects


def _unit(pictures: Pictures) -> Pictures:
    return pictures.changed(
        F.normalize(pictures.queries.float(), dim=1), F.normalize(pictures.items.float(), dim=1)
    )


def _score(
    reranker: Reranker,
    setting: Mapping[str, Number],
    pictures: Pictures,
    fitted_to: Tensor,
    metrics: Sequence[str],
) -> Values:
    depth = depth_for(metrics, pictures.labels, pictures.item_labels, itself=pictures.itself)
    # Re-ranking puts the first rows in a new order: more than are measured must be looked at.
    count = min(2 * depth, len(pictures.items) - int(pictures.itself))
    rows = reranker.rank(pictures, count, fitted_to, **setting)
    return score_ranking(rows, pictures.labels, pictures.item_labels, metrics, itself=pictures.itself)


def _mean(values: npt.NDArray[np.float64]) -> float:
    return float(np.nanmean(values))


@dataclass(frozen=True, eq=False)
class _Draws:
    """How often each class is drawn (resamples x C), the class of each query that counts, and which do."""

    picks: npt.NDArray[np.float64]
    owner: npt.NDArray[np.int64]
    scored: npt.NDArray[np.bool_]

    def estimate(self, values: npt.NDArray[np.float64]) -> Estimate:
        counted = values[self.scored]
        sums, sizes = np.bincount(self.owner, counted), np.bincount(self.owner)
        low, high = np.quantile(self.picks @ sums / (self.picks @ sizes), [0.025, 0.975])
        return Estimate(float(counted.mean()), float(low), float(high))


def _class_draws(labels: Tensor, values: Values, seed: int) -> _Draws:
    scored = ~np.isnan(next(iter(values.values())))
    classes, owner = np.unique(labels.numpy()[scored], return_inverse=True)
    generator = numpy_generator("rerank", "classes", seed)
    picks = generator.multinomial(len(classes), np.full(len(classes), 1 / len(classes)), size=RESAMPLES)
    return _Draws(picks.astype(np.float64), owner, scored)


def _effect(
    name: str, setting: dict[str, Number], gain: float, *, values: Values, plain: Values, draws: _Draws
) -> Effect:
    return Effect(
        name=name,
        parameters=setting,
        development_gain=gain,
        scores={metric: draws.estimate(each) for metric, each in values.items()},
        gains={metric: draws.estimate(each - plain[metric]) for metric, each in values.items()},
    )


def pictures_of(
    queries: EmbeddingFile, gallery: EmbeddingFile | None, development: EmbeddingFile
) -> tuple[Pictures, Pictures]:
    """What is to be scored and what to choose parameters on, from files; labels of all are of one kind."""
    given = [each for each in (queries, gallery, development) if each is not None]
    names = np.concatenate([np.asarray(each.labels).astype(str) for each in given])
    codes = torch.from_numpy(np.unique(names, return_inverse=True)[1].astype(np.int64))
    sizes = [len(each.embeddings) for each in given]
    labels = [codes[end - size : end] for size, end in zip(sizes, np.cumsum(sizes).tolist(), strict=True)]
    vectors = [torch.from_numpy(np.array(each.embeddings, dtype=np.float32)) for each in given]
    if gallery is None:
        return Pictures(vectors[0], labels[0]), Pictures(vectors[1], labels[1])
    return Pictures(vectors[0], labels[0], vectors[1], labels[1]), Pictures(vectors[2], labels[2])
