"""Verdicts on all pairs of methods: different, equivalent or undecided, and which methods may be the best.

All pairs are tested together. The probability of any false difference is ``alpha``, and so is the probability
that the best method is not among the leaders.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from levelfield.core.errors import UsageError
from levelfield.stats._chance import known_chance
from levelfield.stats._difference_variance import Index, difference_variance
from levelfield.stats._holm import holm
from levelfield.stats._judgment import JudgedPair, Judgment, MethodEstimate, PairVerdict
from levelfield.stats._replicate_noise import ReplicateNoise
from levelfield.stats._simultaneous import Errors, Noise, simultaneous
from levelfield.stats._table import ScoreTable

MOST_ALL_BAD = 0.05  # more than this chance that a method had only bad replicates, and no pair is judged

BAD_LEVEL = 0.4  # share of that which is spent where replicates go badly: their losses fit the model least
LEVEL = 0.8  # share of alpha that is spent where variances are learned: real methods fit no model exactly


def judge(
    table: ScoreTable,
    *,
    alpha: float = 0.05,
    equivalence: float | None = None,
    higher_is_better: bool = True,
    draws: int = 100_000,
    seed: int = 0,
) -> Judgment:
    """Judge all pairs of methods; classes, seeds and (if there are several) searches count as random.

    Each method has a variance of its own over replicates, learned together with those of all methods. A pair
    is different if its difference, on the scale of its own standard error and degrees of freedom, exceeds the
    maximum over all pairs in all but ``alpha`` of simulated experiments without differences (step-down). It
    is equivalent if its simultaneous interval lies within ``equivalence`` of 0. Otherwise it is undecided.
    Nothing is judged where too many replicates went badly (``refusal``). The order of the methods does not
    matter.

    Args:
        table: Scores of all methods.
        alpha: Probability of any false difference among all pairs.
        equivalence: Largest difference that does not matter, as a fraction: 0.005 for half a point.
        higher_is_better: False for a metric where lower is better.
        draws: Number of simulated experiments for the correction.
        seed: Seed of the simulation.

    Example:
        >>> from levelfield.stats import score_table
        >>> generator = np.random.default_rng(0)
        >>> hard = generator.random((1, 200))
        >>> noise = lambda: 0.1 * generator.normal(size=(5, 200))
        >>> scores = {"new": hard + 0.05 + noise(), "old": hard + noise(), "twin": hard + noise()}
        >>> verdicts = judge(score_table(scores, classes=np.arange(200) // 10), equivalence=0.05)
        >>> [pair.verdict for pair in verdicts.pairs], sorted(verdicts.leaders)
        (['better', 'better', 'equivalent'], ['new'])
    """
    if not 0 < alpha < 1:
        raise UsageError(f"alpha must lie between 0 and 1, got {alpha}")
    if equivalence is not None and not 0 < equivalence < math.inf:
        raise UsageError(f"equivalence must be above 0, got {equivalence}")
    sign = 1 if higher_is_better else -1
    table = table.reorder(np.argsort(-sign * table.means, kind="stable"))
    errors = known_chance(table, sign)
    refusal = _refusal(table, errors.noise)
    pairs = judge_pairs(
        table, errors, alpha=alpha, margin=equivalence, draws=draws, seed=seed, refused=bool(refusal)
    )
    return Judgment(
        estimates=tuple(_estimate_methods(table, pairs, alpha)),
        pairs=tuple(pairs),
        alpha=alpha,
        margin=equivalence,
        classes=0 if table.class_shares is None else len(table.class_shares),
        reruns=int(np.isfinite(table.runs).sum(axis=2).max()),
        repeats=table.repeats,
        caveats=(*([refusal] if refusal else []), *_caveats(table)),
        refusal=refusal,
    )


def judge_pairs(
    table: ScoreTable,
    errors: Errors,
    *,
    alpha: float,
    margin: float | None,
    draws: int,
    seed: int,
    refused: bool = False,
    learned_level: float = LEVEL,
) -> list[JudgedPair]:
    """Return the verdict on each pair of methods; refused pairs are undecided, with endless intervals."""
    first, second = np.triu_indices(len(table.methods), 1)
    if not len(first):
        return []
    gaps = table.means[first] - table.means[second]
    level = 1.0
    if errors.noise is not None and errors.noise.learned:
        level = learned_level * (1 - (1 - BAD_LEVEL) * errors.noise.bad_chance)
    tested = simultaneous(gaps, errors, first, second, alpha=level * alpha, draws=draws, seed=seed)
    unknown = _unknown(table)[first] & _unknown(table)[second]
    if refused:
        unknown |= ~(table.fixed[first] & table.fixed[second])
    p_values = np.where(unknown | (gaps == 0), 1.0, tested.p_values)
    # Holm's correction is more precise when almost no draw is as extreme
    adjusted = np.maximum(np.minimum(np.where(unknown, 1.0, tested.p_adjusted), holm(p_values)), p_values)
    adjusted = np.minimum(adjusted / level, 1.0)
    half = np.where(unknown, np.inf, np.where(_identical(table, first, second), 0.0, tested.half))
    df = np.where(unknown, np.nan, tested.df)
    found = []
    for k in range(len(first)):
        gap, low, high = float(gaps[k]), float(gaps[k] - half[k]), float(gaps[k] + half[k])
        different = bool(adjusted[k] < alpha and gap != 0)
        if different:  # later steps may detect differences that the simultaneous interval does not
            low, high = (max(low, 0.0), high) if gap > 0 else (low, min(high, 0.0))
        verdict: PairVerdict = "better" if different else "undecided"
        if not different and margin is not None and -margin < low and high < margin:
            verdict = "equivalent"
        found.append(
            JudgedPair(
                first=table.methods[first[k]],
                second=table.methods[second[k]],
                difference=gap,
                low=low,
                high=high,
                df=float(df[k]),
                p_value=float(p_values[k]),
                p_adjusted=float(adjusted[k]),
                verdict=verdict,
                margin=margin,
            )
        )
    return found


def _estimate_methods(table: ScoreTable, pairs: list[JudgedPair], alpha: float) -> list[MethodEstimate]:
    count = len(table.methods)
    variances = difference_variance(table, np.arange(count), np.full(count, count))  # against the constant 0
    half = stdtrit(variances.df, np.full(count, 1 - alpha / 2)) * np.sqrt(variances.variance)
    means = table.means
    unknown = np.full(count, np.nan)
    classes = unknown if variances.classes is None else np.sqrt(variances.classes)
    replicates = unknown if variances.replicates is None else np.sqrt(variances.replicates)
    beaten = {pair.second for pair in pairs if pair.verdict == "better"}
    behind = dict.fromkeys(table.methods, 0.0)
    for pair in pairs:
        # the first method of a pair has the better mean, also if lower is better
        low, high = (pair.low, pair.high) if pair.difference >= 0 else (-pair.high, -pair.low)
        behind[pair.second] = max(behind[pair.second], high)
        behind[pair.first] = max(behind[pair.first], -low)
    found = []
    for k, name in enumerate(table.methods):
        mean = float(means[k])
        found.append(
            MethodEstimate(
                method=name,
                mean=mean,
                low=mean - float(half[k]),
                high=mean + float(half[k]),
                df=float(variances.df[k]),
                class_error=float(classes[k]),
                replicate_error=float(replicates[k]),
                leads=name not in beaten,
                behind=behind[name],
            )
        )
    return found


def _identical(table: ScoreTable, first: Index, second: Index) -> NDArray[np.bool_]:
    """Return the pairs (P) whose scores agree in every rerun: no chance separates them."""
    runs = np.nan_to_num(table.runs, nan=np.inf)
    return np.array([np.array_equal(runs[i], runs[j]) for i, j in zip(first, second, strict=True)])


def _unknown(table: ScoreTable) -> NDArray[np.bool_]:
    """Return the methods of which no chance is known (M): neither over classes nor over replicates."""
    if table.class_effects is not None:
        return np.zeros(len(table.methods), dtype=bool)
    return table.fixed | bool(table.counts[~table.fixed].max(initial=0) < 2)


def _refusal(table: ScoreTable, noise: Noise | None) -> str:
    """Return the reason why no pair is judged, or "" if pairs are judged."""
    if not isinstance(noise, ReplicateNoise) or noise.counts.max() < 3 or noise.all_bad < MOST_ALL_BAD:
        return ""  # two replicates cannot show that one of them went badly
    what = "reruns" if table.repeats == 1 else "searches"
    fewest = int(noise.counts.min())
    enough = fewest
    while 1 - (1 - max(noise.bad_rate, 0.1) ** enough) ** len(noise.counts) > MOST_ALL_BAD / 4:
        enough += 1
    return (
        f"No verdict: about {100 * noise.bad_rate:.0f}% of the {what} went badly, so a method may have had "
        f"only bad ones, and {fewest} {what} cannot show it; plan at least {max(enough, fewest + 2)}."
    )


def _caveats(table: ScoreTable) -> list[str]:
    found = []
    if table.class_effects is None:
        found.append("There are no values per query: chance in the choice of classes is not counted.")
    trained = ~table.fixed
    if trained.any() and table.counts[trained].max() < 2:
        found.append("Each method was trained once: luck of the seeds is not counted.")
    if trained.any() and table.counts[trained].max() == 2:
        found.append(
            f"Each method has two {'reruns' if table.repeats == 1 else 'searches'}, which may agree by luck: "
            "up to 7% of simulated experiments without differences show one, and intervals are wide."
        )
    if trained.any() and table.repeats == 1:
        found.append(
            "Each method was searched once: luck in the search is not counted, so verdicts are about the "
            "selected hyperparameters, not about the methods."
        )
    return found
