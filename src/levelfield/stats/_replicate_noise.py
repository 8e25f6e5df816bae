"""Noise of the methods' means from reruns or searches: one variance per method, learned from all methods.

A variance from three searches is hardly known, and 22 methods are not equally stable. So the variances get a
common prior, lognormal with a learned center and width; a few methods may lie far outside. A replicate may
also go badly, with a learned probability and drop. All that is learned is integrated out, not plugged in.
docs/statistics.md explains the model and shows its error rates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelfield.stats._moderate import moderate_variances
from levelfield.stats._table import Array, ScoreTable

Index = NDArray[np.int64]

STEP = 0.25  # of the grid of log variances
GRID = STEP * np.arange(-56, 41)  # log variance, relative to the typical one
CENTERS = np.linspace(-6.0, 6.0, 25)  # of the prior, relative to the typical log variance
WIDTHS = np.array([0.0, 0.3, 0.6, 0.9, 1.2, 1.6, 2.0, 2.5, 3.0, 3.6, 4.5])  # of the log variances
WIDTH_SCALE = 2.5  # widths are half-normal with this scale before any data
OUTLIERS = 0.03  # share of methods that may lie far outside ...
OUTLIER_WIDTH = 3.3  # ... by this width of the log variance: up to ten times the standard deviation
BAD_RATES = np.array([0.0, 0.03, 0.08, 0.15, 0.25, 0.35])  # share of replicates that go badly
BAD_RATES_PRIOR = np.array([0.6, 0.12, 0.10, 0.08, 0.06, 0.04])
COMMON_DROPS = 5  # drops of a bad replicate that are the same for all methods
OWN_DROPS = (6.0, 12.0)  # drops in units of the method's own standard deviation
FEW_METHODS = 12  # with fewer, the part of shared luck in a method's squares stays in
LEAST_WEIGHT = 1e-3  # rates and drops that are less likely are left out
DROP_SPREAD = 0.2  # standard deviation of a drop, as a share of it


@dataclass(frozen=True)
class NoiseDraws:
    """Draws of the error of each method's mean over replicates: normal, given shift and variance.

    Attributes:
        shift: Expected error (M x draws), not 0 if a replicate may have gone badly.
        variance: Variance of the error (M x draws).
        shared: Variance of the luck that all methods share in one replicate (draws).
    """

    shift: Array
    variance: Array
    shared: Array


class ReplicateNoise:
    """Error of the methods' means, as replicates tell it; create it with ``replicate_noise``.

    Attributes:
        trained: Indices of the methods that vary.
        counts: Number of replicates of each trained method.
        weights: Share of each replicate in each method's mean (M x U); 0 for fixed methods.
        values: Deviations of replicates from their method's mean, without shared luck (one array a method).
        shared: Estimated variance of the shared luck of one replicate.
        shared_df: Its degrees of freedom.
        paired: Degrees of freedom of the only pair of trained methods; 0 with more methods.
    """

    def __init__(
        self,
        trained: Index,
        *,
        weights: Array,
        values: list[Array],
        base: Array,
        shared: float,
        shared_df: float,
        paired: float,
        sign: int,
    ) -> None:
        self.trained, self.weights, self.values, self.sign = trained, weights, values, sign
        self.counts = np.array([len(own) for own in values])
        self.shared, self.shared_df, self.paired = shared, shared_df, paired
        self.squares = np.array([float((own**2).sum()) for own in values])
        df = self.counts - 1.0
        known = (df > 0) & (self.squares > 0)
        self.varies = bool(known.any())
        if not self.learned:
            return
        self.typical = float(np.median(self.squares[known] / df[known]))
        self.variances = self.typical * np.exp(GRID) + base[:, None]  # of one replicate (methods x grid)
        self.drops = self._drop_sizes()  # methods x drops x grid
        likelihood = self._likelihoods()
        scale = likelihood.max(axis=(1, 2, 3), keepdims=True)
        self.likelihood = np.exp(likelihood - scale)  # methods x drops x bad replicates x variances
        self._learn()

    def _drop_sizes(self) -> Array:
        """Return the possible drops: some the same for all methods, some in own standard deviations."""
        sd = np.sqrt(self.variances)
        widest = max(float(np.ptp(own)) for own in self.values)
        least = 3 * np.sqrt(self.typical)
        common = np.geomspace(least, max(widest, 2 * least), COMMON_DROPS)
        same = [np.full_like(sd, drop) for drop in common]
        return np.stack([*same, *(k * sd for k in OWN_DROPS)], axis=1)

    def _likelihoods(self) -> Array:
        """Return log likelihoods (methods x drops x number of bad replicates x variances).

        The bad replicates of a method are its lowest ones. Counts that a method cannot have are -inf.
        """
        most = int(self.counts.max())
        shape = (len(self.values), self.drops.shape[1], most + 1, len(GRID))
        found = np.full(shape, -np.inf)
        self.centers, self.spreads = np.zeros(shape), np.zeros(shape)
        for m, own in enumerate(self.values):
            ordered = np.sort(own)
            for bad in range(len(own) + 1):
                pattern = _pattern(ordered, bad, self.variances[m], self.drops[m])
                self.centers[m, :, bad], self.spreads[m, :, bad], found[m, :, bad] = pattern
        return found

    def _learn(self) -> None:
        """Compute the weights of drops, rates, centers and widths from the scores of all methods."""
        size, drops, counts, grid = self.likelihood.shape
        by_count = (self.likelihood.reshape(-1, grid) @ PRIOR.T).reshape(size, drops, counts, len(PRIOR))
        cases, log_weights, evidence = [], [], []
        for rate, chance_of_rate in zip(BAD_RATES, BAD_RATES_PRIOR, strict=True):
            chance = self._count_chance(rate)
            for drop in range(drops if rate else 1):
                total = np.maximum(np.einsum("mch,mc->mh", by_count[:, drop], chance), 1e-300)
                cases.append((float(rate), drop))
                evidence.append(total)
                share = chance_of_rate / (drops if rate else 1)
                log_weights.append(np.log(total).sum(axis=0) + LOG_HYPERPRIOR + np.log(share))
        weights = np.exp(np.array(log_weights) - np.max(log_weights))
        weights /= weights.sum()
        self.cases = [
            _Case(rate, drop, float(weight.sum()), self._count_chance(rate), weight / total)
            for (rate, drop), weight, total in zip(cases, weights, evidence, strict=True)
            if weight.sum() > LEAST_WEIGHT
        ]
        self.hyper_weights = weights.sum(axis=0)

    def _count_chance(self, rate: float) -> Array:
        """Return the chance of each set of 0, 1, ... bad replicates (methods x counts)."""
        bad = np.arange(self.likelihood.shape[2])[None, :]
        good = np.maximum(self.counts[:, None] - bad, 0)
        chance: Array = np.where(bad <= self.counts[:, None], rate**bad * (1 - rate) ** good, 0.0)
        return chance

    @property
    def learned(self) -> bool:
        """True if variances were learned from all methods, not from the differences of one pair."""
        return self.varies and not self.paired

    @property
    def all_bad(self) -> float:
        """Chance that some method has only bad replicates, so that nothing shows its error."""
        if not self.learned:
            return 0.0
        return sum(case.weight * float(1 - np.prod(1 - case.rate**self.counts)) for case in self.cases)

    @property
    def bad_chance(self) -> float:
        """Chance that replicates go badly at all, at any rate."""
        if not self.learned:
            return 0.0
        return sum(case.weight for case in self.cases if case.rate > 0)

    @property
    def bad_rate(self) -> float:
        """Expected share of replicates that go badly."""
        if not self.learned:
            return 0.0
        return sum(case.rate * case.weight for case in self.cases)

    def draw(self, size: int, generator: np.random.Generator) -> NoiseDraws:
        """Draw from what is known of the errors of the trained methods' means."""
        methods = len(self.values)
        shift, variance = np.zeros((methods, size)), np.zeros((methods, size))
        shared = np.zeros(size)
        if self.shared > 0:
            shared = self.shared * self.shared_df / generator.chisquare(self.shared_df, size)
        if not self.varies:
            return NoiseDraws(shift, variance, shared)
        if self.paired:
            scale = 1 / generator.chisquare(self.paired, size)
            return NoiseDraws(shift, np.outer(self.squares / self.counts, scale), shared)
        shares = np.array([case.weight for case in self.cases])
        stops = np.round(size * np.cumsum(shares) / shares.sum()).astype(int)
        start = 0
        for case, stop in zip(self.cases, stops, strict=True):
            if stop > start:
                uniform = generator.random((methods, stop - start))
                for m in range(methods):
                    shift[m, start:stop], variance[m, start:stop] = self._draw_one(m, case, uniform[m])
            start = stop
        return NoiseDraws(self.sign * shift, variance, shared)

    def _draw_one(self, method: int, case: _Case, uniform: Array) -> tuple[Array, Array]:
        """Draw shift and variance of the error of one method's mean, from uniform numbers."""
        chance = case.chance[method]
        posterior = self.likelihood[method, case.drop] * chance[:, None] * (case.ratios[method] @ PRIOR)
        cumulative = posterior.ravel().cumsum()
        picks = np.searchsorted(cumulative, uniform * cumulative[-1])
        bad, point = np.divmod(np.minimum(picks, len(cumulative) - 1), len(GRID))
        center = self.centers[method, case.drop, bad, point]
        shift = center - case.rate * self.drops[method, case.drop, point]
        return shift, self.spreads[method, case.drop, bad, point]


@dataclass(frozen=True)
class _Case:
    """One rate and drop of bad replicates, and its weight.

    Attributes:
        chance: Chance of each set of bad replicates (methods x counts).
        ratios: Weights of the priors of log variances, by method (methods x H).
    """

    rate: float
    drop: int
    weight: float
    chance: Array
    ratios: Array


def _priors() -> tuple[Array, Array]:
    """Return the priors of log variances (H x grid), and the logarithm of their own weights (H)."""
    centers, widths = (each.ravel() for each in np.meshgrid(CENTERS, WIDTHS, indexing="ij"))
    off = GRID[None] - centers[:, None]
    found = np.zeros((len(centers), len(GRID)))
    for share, wider in ((1 - OUTLIERS, 0.0), (OUTLIERS, OUTLIER_WIDTH)):
        spread = np.sqrt(widths**2 + wider**2 + (STEP / 2) ** 2)[:, None]
        density = np.exp(-0.5 * (off / spread) ** 2)
        found += share * density / density.sum(axis=1, keepdims=True)
    return found, -0.5 * (widths / WIDTH_SCALE) ** 2 + np.log(
        np.gradient(WIDTHS)[None].repeat(len(CENTERS), 0).ravel()
    )


PRIOR, LOG_HYPERPRIOR = _priors()


def _pattern(ordered: Array, bad: int, variances: Array, drops: Array) -> tuple[Array, Array, Array]:
    """Return what a method's replicates say if the lowest ``bad`` of them went badly (drops x grid each).

    Args:
        ordered: Replicates, lowest first.
        bad: Number of bad replicates.
        variances: Variances of a good replicate (grid).
        drops: Drops of a bad replicate (drops x grid).

    Returns:
        Center and variance of the method's usual level, and the log likelihood.
    """
    good_weight = 1 / variances
    bad_weight = 1 / (variances + (DROP_SPREAD * drops) ** 2)
    low, high = ordered[:bad], ordered[bad:]
    total = bad * bad_weight + len(high) * good_weight
    center = (bad_weight * (low.sum() + bad * drops) + good_weight * high.sum()) / total
    squares = good_weight * ((high**2).sum() - 2 * center * high.sum() + len(high) * center**2)
    moved = center - drops
    squares = squares + bad_weight * ((low**2).sum() - 2 * moved * low.sum() + bad * moved**2)
    logs = len(high) * np.log(good_weight) + bad * np.log(bad_weight) - np.log(total)
    return center, 1 / total, 0.5 * (logs - squares)


def replicate_noise(table: ScoreTable, overlap: Array, *, sign: int = 1) -> ReplicateNoise | None:
    """Return the noise that the replicates of a table show; None if no method has two.

    Luck that all methods share in a replicate, through equal seeds, is taken out of the deviations. Two
    methods alone are compared by their paired differences.

    Args:
        table: Scores of all methods.
        overlap: Variance of one replicate's score that the variance over classes contains too (M).
        sign: 1 if higher is better, -1 if lower is: the direction in which a replicate does not go badly.
    """
    trained = np.nonzero(~table.fixed)[0]
    scores = table.scores
    there = np.isfinite(scores) & ~table.fixed[:, None]
    weights = there / np.maximum(there.sum(axis=1), 1)[:, None]
    if not len(trained) or there.sum(axis=1).max() < 2:
        return None
    own, known = scores[trained], there[trained]
    counts = known.sum(axis=1)
    deviations = np.where(known, own - np.nanmean(own, axis=1, keepdims=True), 0.0)
    common = known.astype(float) @ known.T
    product = deviations @ deviations.T
    i, j = np.triu_indices(len(trained), 1)
    usable = common[i, j] > 1
    shared = 0.0
    if usable.any():
        shared = max(float((product[i, j][usable].sum()) / (common[i, j][usable] - 1).sum()), 0.0)
    shared_df = max(float(counts.max() - 1), 1.0)
    paired = 0.0
    if len(trained) == 2 and common[0, 1] > 1:
        paired = float(common[0, 1] - 1)
        deviations = _split_pair(own, known, deviations, shared)
    elif len(trained) > 2:
        deviations = _without_shared(deviations, known, counts)
    values = [sign * row[seen] for row, seen in zip(deviations, known, strict=True)]
    base = np.maximum(overlap[trained], _rerun_part(table, trained))
    return ReplicateNoise(
        trained,
        weights=weights,
        values=values,
        base=base,
        shared=shared,
        shared_df=shared_df,
        paired=paired,
        sign=sign,
    )


def _split_pair(own: Array, known: NDArray[np.bool_], deviations: Array, shared: float) -> Array:
    """Return deviations of two methods whose squares add up to those of their paired differences."""
    both = known.all(axis=0)
    gap = np.where(both, own[0] - own[1], 0.0)
    gap[both] -= gap[both].mean()
    alone = np.maximum((deviations**2).sum(axis=1) - shared * (known.sum(axis=1) - 1), 0.0)
    shares = (0.1 + alone / alone.sum()) / 1.2 if alone.sum() > 0 else np.full(2, 0.5)
    found: Array = gap * np.sqrt(shares)[:, None]
    return found


def _without_shared(deviations: Array, known: NDArray[np.bool_], counts: Index) -> Array:
    """Take the luck that all methods share out of deviations (M x U), keeping their own squares unbiased.

    Stable methods tell most about the shared luck, so they have more weight in it.
    """
    df = np.maximum(counts - 1, 1)
    variances = (deviations**2).sum(axis=1) / df
    seen = variances[counts > 1]
    weight = 1 / np.maximum(variances + np.median(seen), 1e-300)
    weight = np.where(counts > 1, weight, 0.0)[:, None] * known
    weight /= np.maximum(weight.sum(axis=0), 1e-300)
    rest = np.where(known, deviations - (weight * deviations).sum(axis=0), 0.0)
    rest -= np.where(known, rest.sum(axis=1, keepdims=True) / np.maximum(counts, 1)[:, None], 0.0)
    part = np.max(weight, axis=1)
    squares = (rest**2).sum(axis=1) / (1 - part) ** 2
    weighted = part**2 * squares / df
    added = df * (weighted.sum() - weighted) / (1 - part) ** 2
    # a few methods tell too little of the others' part to take it out
    wanted = squares if len(counts) < FEW_METHODS else np.maximum(squares - added, squares / 2)
    now = (rest**2).sum(axis=1)
    scale = np.sqrt(np.divide(wanted, now, out=np.zeros_like(now), where=now > 0))
    found: Array = rest * scale[:, None]
    return found


def _rerun_part(table: ScoreTable, trained: Index) -> Array:
    """Return the part of a search mean's variance that comes from its few reruns (methods)."""
    if table.repeats == 1:
        return np.zeros(len(trained))
    runs = table.runs[trained]
    there = np.isfinite(runs)
    counts = there.sum(axis=2)
    means = np.where(there, runs, 0.0).sum(axis=2) / np.maximum(counts, 1)
    deviations = np.where(there, runs - means[:, :, None], 0.0).reshape(len(trained), -1)
    squares = (deviations**2).sum(axis=1)
    df = np.maximum(counts - 1, 0).sum(axis=1).astype(float)
    if not squares.any():
        return np.zeros(len(trained))
    own = 1.0
    if len(trained) > 2:  # equal seeds: only the methods' own part counts
        everything = float((deviations.sum(axis=0) ** 2).sum())
        own -= min(max((everything - squares.sum()) / ((len(trained) - 1) * squares.sum()), 0.0), 1.0)
    variances, _ = moderate_variances(squares / np.maximum(df, 1.0), df, pooled_df=float(df.sum()))
    searches = np.maximum((counts > 0).sum(axis=1), 1)
    per_mean = np.where(counts > 0, 1 / np.maximum(counts, 1), 0.0).sum(axis=1) / searches
    found: Array = own * variances * per_mean
    return found
