"""Choice of a model by quality and cost: who is beaten by none, and one sentence on which to use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from levelfield.analysis._model_comparison import ModelComparison, compare_models
from levelfield.analysis._model_scores import Array, ModelScores

FASTER = 1.25  # a model is called faster from this ratio on
ALLOWED_LOSS = 0.01  # share of the score that a recommended code may lose
FULL = "full"


@dataclass(frozen=True)
class ModelCost:
    """Cost of a model on this machine.

    Attributes:
        images_per_second: Images that the network embeds in a second, with pixels in memory; all cores.
        image_size: Side of the input, in pixels.
        size: Numbers in an embedding.
        parameters: Number of parameters; None if they are not known.
        megabytes: Size of the weights in memory; None if it is not known.
    """

    images_per_second: float
    image_size: int
    size: int
    parameters: int | None = None
    megabytes: float | None = None


@dataclass(frozen=True)
class CodeScore:
    """Quality of embeddings that are stored in a smaller code.

    Attributes:
        name: Name of the code, such as "int8".
        bytes: Bytes of one embedding.
        score: Score by the metric of the verdict.
        difference: Score minus that of the full embeddings.
        low: Lower end of the 95% interval of the difference; None if it was not tested.
        high: Upper end of that interval.
        verdict: "better", "worse", "equivalent" or "undecided", against the full embeddings.
    """

    name: str
    bytes: int
    score: float
    difference: float
    low: float | None
    high: float | None
    verdict: str


@dataclass(frozen=True)
class TrainedHead:
    """Quality with a trained linear head, from an experiment with the model as a frozen trunk.

    Attributes:
        method: Method with the best mean.
        pretrained: Score of the features before training, reduced to the size of the head.
        trained: Score of the method.
        verdict: "better", "worse", "equivalent" or "undecided", against the features before training.
        directory: Directory of the experiment.
    """

    method: str
    pretrained: float
    trained: float
    verdict: str
    directory: str


@dataclass(frozen=True, eq=False)
class ModelChoice:
    """Models compared by quality and cost.

    Attributes:
        comparison: Scores and verdicts.
        costs: Cost by model.
        codes: What is left of each model in smaller codes; the full embeddings come first.
        heads: Effect of a trained head, for models that can have one.
    """

    comparison: ModelComparison
    costs: Mapping[str, ModelCost]
    codes: Mapping[str, tuple[CodeScore, ...]] = field(default_factory=dict)
    heads: Mapping[str, TrainedHead] = field(default_factory=dict)

    @property
    def undominated(self) -> tuple[str, ...]:
        """Models that no other beats in both quality and speed, best mean first."""
        means = {name: self._sign * mean for name, mean in self.comparison.means.items()}
        speed = {name: self.costs[name].images_per_second for name in means}
        return tuple(
            name
            for name in means
            if not any(
                means[other] >= means[name]
                and speed[other] >= speed[name]
                and (means[other] > means[name] or speed[other] > speed[name])
                for other in means
            )
        )

    @property
    def _sign(self) -> float:
        return -1.0 if self.comparison.metric_info.higher_is_better is False else 1.0

    @property
    def sentences(self) -> tuple[str, ...]:
        """Choice of a model: the best, a faster one, and a code to store."""
        found = self.comparison.conclusion
        if found.use is None:
            return found.answer
        return tuple(filter(None, (self._use(found.use), self._code(found.use))))

    @property
    def text(self) -> str:
        """All sentences in one line."""
        return " ".join(self.sentences)

    def _use(self, best: str) -> str:
        info = self.comparison.metric_info
        names = list(self.comparison.means)
        score = f"{info.shown(self.comparison.means[best])} {info.axis}"
        if len(names) == 1:
            return f"{best} is the only model that was scored: {score}."
        leaders = [name for name in names if name in self.comparison.leaders(self.comparison.metric)]
        ratio = {name: self._ratio(name, best) for name in names if name != best}
        quick = [name for name in leaders if name != best and ratio[name] >= FASTER]
        if quick:
            name = max(quick, key=lambda each: ratio[each])
            return f"Use {best}; {name} is not worse for sure and {ratio[name]:.1f} times as fast."
        worse = [name for name in names if name not in leaders and ratio[name] >= FASTER]
        rest = [name for name in leaders if name != best]
        first = f"Use {best}" if not rest else f"Use {best}; {', '.join(rest)} may be as good, but not faster"
        if not rest:
            first += ": it beats every other model for sure"
        if not worse:
            return f"{first}."
        name = max(worse, key=lambda each: self.comparison.means[each] * self._sign)
        lost = abs(info.scale * (self.comparison.means[best] - self.comparison.means[name]))
        unit = " points" if info.unit == "percent" else ""
        loss = f"{lost:.{1 if unit else 4}f}{unit} worse"
        return f"{first}. {name} is {ratio[name]:.1f} times as fast, and {loss}."

    def _ratio(self, name: str, best: str) -> float:
        return self.costs[name].images_per_second / self.costs[best].images_per_second

    def _code(self, best: str) -> str:
        """Return a sentence on the smallest code that loses next to nothing; "" if there is none."""
        full, *codes = self.codes.get(best, ()) or (None,)
        info = self.comparison.metric_info
        limit = ALLOWED_LOSS * abs(self.comparison.means[best])
        kept = [
            code
            for code in codes
            if code is not None and code.verdict != "worse" and -self._sign * code.difference <= limit
        ]
        if full is None or not kept:
            return ""
        smallest = min(kept, key=lambda code: code.bytes)
        if smallest.bytes >= full.bytes:
            return ""
        unit = " points" if info.unit == "percent" else ""
        times, change = full.bytes / smallest.bytes, info.shown(smallest.difference, "+")
        return f"Stored as {smallest.name}, its embeddings are {times:.0f} times smaller ({change}{unit})."


def score_codes(
    values: Mapping[str, Mapping[str, Array]],
    sizes: Mapping[str, int],
    *,
    classes: Sequence[object] | np.ndarray[tuple[int], np.dtype[np.int64]],
    metric: str,
    equivalence: float | None = None,
) -> tuple[CodeScore, ...]:
    """Return the scores of the codes of one model, and their differences to the full embeddings.

    Args:
        values: Value of each query (Q) by code and metric; the code ``FULL`` is compared with the others.
        sizes: Bytes of an embedding, by code.
        classes: Class of each query (Q).
        metric: Metric of the comparison.
        equivalence: Largest difference that does not matter, as tables print it.

    Example:
        >>> random = np.random.default_rng(0)
        >>> full = random.random(200)
        >>> given = {FULL: {"map_at_r": full}, "binary": {"map_at_r": full - 0.1 - 0.01 * random.random(200)}}
        >>> found = score_codes(
        ...     given, {FULL: 512, "binary": 16}, classes=np.arange(200) // 5, metric="map_at_r"
        ... )
        >>> [(code.name, code.verdict) for code in found]
        [('full', ''), ('binary', 'worse')]
    """
    models = {
        name: ModelScores({key: each[None] for key, each in own.items() if key == metric})
        for name, own in values.items()
    }
    found = compare_models(models, classes=np.asarray(classes), metric=metric, equivalence=equivalence)
    means = {name: float(own.scores(metric)[0]) for name, own in models.items()}
    judged = {pair.second: pair.judged for pair in found.pairs if pair.first == FULL}
    judged |= {pair.first: pair.judged.swapped() for pair in found.pairs if pair.second == FULL}
    opposite = {"better": "worse", "worse": "better"}
    rows = [CodeScore(FULL, sizes[FULL], means[FULL], 0.0, None, None, "")]
    for name in values:
        if name == FULL:
            continue
        pair = judged.get(name)
        tested = pair is not None and math.isfinite(pair.low)
        rows.append(
            CodeScore(
                name,
                sizes[name],
                means[name],
                means[name] - means[FULL],
                -pair.high if tested and pair is not None else None,
                -pair.low if tested and pair is not None else None,
                "undecided" if pair is None else opposite.get(pair.verdict, pair.verdict),
            )
        )
    return tuple(rows)
