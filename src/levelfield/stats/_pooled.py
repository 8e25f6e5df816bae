"""Verdicts over several experiments: which methods differ in general, not on one dataset alone.

A method's mean on a dataset is the sum of the dataset, the method, their interaction, and the error within
the experiment (searches, reruns, classes). In general means: over datasets like these. A dataset is then one
replicate, and the interaction is its luck. Two to five datasets say little about one method's interaction, so
it is learned from all methods together, like the luck of searches; the error within the experiments is known
and bounds it from below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.stats._chance import known_chance
from levelfield.stats._judge import judge_pairs
from levelfield.stats._judgment import JudgedPair
from levelfield.stats._replicate_noise import NoiseDraws, ReplicateNoise, replicate_noise
from levelfield.stats._simultaneous import Errors, draw_noise
from levelfield.stats._table import Array, ScoreTable, rerun_table

POOLED_LEVEL = (
    0.5  # share of alpha that is spent: two or three datasets fit the model less surely than searches
)


@dataclass(frozen=True)
class PooledJudgment:
    """Verdicts on methods over several experiments.

    Attributes:
        experiments: Names of the experiments.
        means: Mean score of each method over the experiments, best first.
        pairs: Every pair of methods, the better mean first.
        interaction: Typical standard deviation of a method's own luck on a dataset.
        error: Typical standard error of a method's mean within an experiment, part of ``interaction``.
        alpha: Probability of any false "better" or "worse".
    """

    experiments: tuple[str, ...]
    means: dict[str, float]
    pairs: tuple[JudgedPair, ...]
    interaction: float
    error: float
    alpha: float

    @property
    def leaders(self) -> frozenset[str]:
        """Methods that no other was found better than in general."""
        return frozenset(self.means) - {pair.second for pair in self.pairs if pair.verdict == "better"}

    @property
    def sentence(self) -> str:
        """Repeated findings in one sentence."""
        where = _listed(self.experiments)
        beaten: dict[str, list[str]] = {}
        for pair in self.pairs:
            if pair.verdict == "better":
                beaten.setdefault(pair.second, []).append(pair.first)
        if not beaten:
            return f"Nothing repeats: over {where}, no two of {len(self.means)} methods differ in general."
        counts = sorted(beaten.items(), key=lambda item: (-len(item[1]), item[0]))
        parts = [
            f"{method} is worse than {len(others)} other{'s' if len(others) > 1 else ''}"
            for method, others in counts
        ]
        rest = len(self.means) - len(beaten)
        return f"What repeats over {where}: {_listed(parts)}; {rest} methods were not found worse than any."


def judge_together(
    tables: Mapping[str, ScoreTable],
    *,
    alpha: float = 0.05,
    equivalence: float | None = None,
    higher_is_better: bool = True,
    draws: int = 100_000,
    seed: int = 0,
) -> PooledJudgment:
    """Judge the methods that all tables have, over datasets like those of the tables.

    Args:
        tables: Scores by experiment; fixed methods are left out.
        alpha: Probability of any false difference among all pairs.
        equivalence: Largest difference that does not matter, as a fraction.
        higher_is_better: False for a metric where lower is better.
        draws: Number of simulated experiments for the correction.
        seed: Seed of the simulation.

    Raises:
        UsageError: There are fewer than two tables, or fewer than two common methods.
    """
    if len(tables) < 2:
        raise UsageError("a verdict over experiments needs at least two of them")
    trained = [[m for m, still in zip(t.methods, t.fixed, strict=True) if not still] for t in tables.values()]
    common = [m for m in trained[0] if all(m in each for each in trained)]
    if len(common) < 2:
        raise UsageError("the experiments have fewer than two trained methods in common")
    sign = 1 if higher_is_better else -1
    parts = [_of(table, common) for table in tables.values()]
    means = np.array([part.means for part in parts]).T  # methods x experiments
    order = np.argsort(-sign * means.mean(axis=1), kind="stable")
    names, means = [common[k] for k in order], means[order]
    chances = [known_chance(_of(part, names), sign) for part in parts]
    size = len(names)
    known = np.mean([_typical_errors(chance) for chance in chances], axis=0)
    table = rerun_table(dict(zip(names, means, strict=True)))
    between = replicate_noise(table, known, sign=sign)
    assert between is not None  # two experiments are two replicates
    classes = np.sum([chance.classes for chance in chances], axis=0) / len(parts) ** 2
    class_df = min(chance.class_df for chance in chances)
    errors = Errors(classes, class_df, _PooledNoise(between, chances, known), np.zeros(size))
    pairs = judge_pairs(
        table,
        errors,
        alpha=alpha,
        margin=equivalence,
        draws=draws,
        seed=seed,
        learned_level=POOLED_LEVEL,
    )
    spread = means - means.mean(axis=1, keepdims=True)
    spread = spread - spread.mean(axis=0)
    df = (size - 1) * (len(parts) - 1)
    return PooledJudgment(
        experiments=tuple(tables),
        means=dict(zip(names, means.mean(axis=1).tolist(), strict=True)),
        pairs=tuple(pairs),
        interaction=float(np.sqrt((spread**2).sum() / df)),
        error=float(np.sqrt(np.median(known))),
        alpha=alpha,
    )


def _of(table: ScoreTable, methods: list[str]) -> ScoreTable:
    """Return the table with these methods only, in this order."""
    return table.reorder(np.array([table.methods.index(name) for name in methods]))


class _PooledNoise:
    """Luck on datasets, and the errors within experiments, of the methods' means over all experiments."""

    learned = True

    def __init__(self, between: ReplicateNoise, within: list[Errors], known: Array) -> None:
        self.between, self.within, self.known = between, within, known
        self.trained = between.trained
        self.bad_chance = between.bad_chance
        self.counts = np.ones(len(known))
        self.weights = np.zeros_like(between.weights)  # all methods have every dataset: its effect cancels

    def draw(self, size: int, generator: np.random.Generator) -> NoiseDraws:
        """Draw the errors of the means: learned luck on datasets, and each experiment's own chance."""
        luck = self.between.draw(size, generator)
        count = len(self.within)
        variance = np.maximum(luck.variance - self.known[:, None] / count, 0.0)
        shift = np.zeros_like(variance)
        for chance in self.within:
            found = draw_noise(chance, size, generator)
            shift += found.shift / count
            variance += found.variance / count**2
        return NoiseDraws(shift, variance, np.zeros(size))


def _typical_errors(chance: Errors) -> Array:
    """Return the typical squared standard error of each method's mean within its experiment (M)."""
    drawn = draw_noise(chance, 1_000, np.random.default_rng(0))
    found: Array = np.diag(chance.classes) + np.median(drawn.variance, axis=1)
    return found


def _listed(words: tuple[str, ...] | list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + f" and {words[-1]}"
