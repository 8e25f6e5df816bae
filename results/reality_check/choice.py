"""Answers for readers who choose a loss, computed from the arenas: docs/which-loss.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from arenas import Arena
from levelfield import losses, methods
from overview import Overview, listed

SIZABLE = 0.5  # points; smaller differences do not matter when a loss is chosen


@dataclass(frozen=True)
class Answer:
    """One row of the table of recommendations.

    Attributes:
        wish: What the reader wants.
        method: Method to use.
        why: Reason, from the records.
    """

    wish: str
    method: str
    why: str


def answers(overview: Overview, trained: Sequence[Arena], cost: Mapping[str, float]) -> list[Answer]:
    """Return the recommendations that the records allow, the general one first.

    Args:
        overview: Main arenas on a frozen network.
        trained: Arenas in which more layers are trained.
        cost: Time of a step of each method, as a ratio; empty if it was not measured.
    """
    candidates = overview.candidates
    if not candidates:
        return []
    best = candidates[0]
    rank = list(overview.gains).index(best)
    where = "the best mean" if rank == 0 else f"rank {rank + 1} by mean"
    gains = listed([f"{arena.gains[best]:+.1f} on {arena.dataset}" for arena in overview.arenas])
    why = (
        f"{where}: {gains}, in points over the pretrained features; no method was found better on any dataset"
    )
    found = [Answer("one default", best, why)]
    pairwise = [m for m in candidates if not _has_class_weights(m, overview)]
    if pairwise:
        wish = "no weights per class: many classes, or labels that change"
        found.append(Answer(wish, pairwise[0], _gap(overview, pairwise[0])))
    untuned = {m: score for m, score in untuned_scores(overview).items() if m in candidates}
    if untuned:
        first = max(untuned, key=lambda m: untuned[m])
        why = f"its paper's values had the best validation scores; {_gap(overview, first)}"
        found.append(Answer("no time to tune", first, why))
    timed = {f"{cost[m]:.1f}": m for m in reversed(candidates) if m in cost}  # equal times: the best mean
    if timed:
        cheapest = timed[min(timed, key=float)]
        most = max(cost, key=lambda m: cost[m])
        why = f"its step takes {cost[cheapest]:.1f} times that of contrastive, {most}'s {cost[most]:.1f}"
        found.append(Answer("the cheapest step", cheapest, f"{why}; {_gap(overview, cheapest)}"))
    return [*found, *_when_trained(trained)]


def _when_trained(trained: Sequence[Arena]) -> list[Answer]:
    if not trained:
        return []
    common = [m for m in trained[0].methods if all(m in arena.leaders for arena in trained)]
    if not common:
        return []
    where = listed([arena.dataset for arena in trained])
    searches = " and ".join(dict.fromkeys(arena.budget for arena in trained))
    others = len(trained[0].methods) - len(common)
    why = f"none of the {others} others was found better, on {where} (searches x trials, reruns: {searches})"
    return [Answer("to train more layers than a head", listed(common), why)]


def _gap(overview: Overview, method: str) -> str:
    behind, most = overview.behind(method)
    if behind <= 0:
        return "it has the best mean"
    return f"{behind:.1f} points behind the best mean, at most {most:.1f}"


def _has_class_weights(name: str, overview: Overview) -> bool:
    specs = {spec.name: spec for spec in overview.arenas[0].analysis.comparison.experiment.methods}
    return losses.registry[methods.resolve_method(specs[name]).loss].card.kind == "classification"


def untuned_scores(overview: Overview) -> dict[str, float]:
    """Return the validation score of the papers' values, in points above the average method.

    The first trial of each search has the papers' values. The mean is over searches and datasets. Methods
    without such trials are left out.
    """
    found: dict[str, list[float]] = {}
    for arena in overview.arenas:
        if arena.analysis.comparison.experiment.search.first != "defaults":
            continue
        scores = {}
        for result in arena.analysis.comparison.trained:
            first = [repeat.trials[0].score for repeat in result.repeats if repeat.trials]
            if known := [score for score in first if score is not None]:
                scores[result.method] = 100 * fmean(known)
        for method, score in scores.items():
            found.setdefault(method, []).append(score - fmean(scores.values()))
    return {method: fmean(each) for method, each in found.items() if method in overview.gains}


@dataclass(frozen=True)
class Effect:
    """Effect of a choice on MAP@R.

    Attributes:
        choice: What is changed.
        points: Size of the effect, as text.
    """

    choice: str
    points: str


def effects(
    overview: Overview, trained: Sequence[Arena], swept: Mapping[str, tuple[float, float]]
) -> list[Effect]:
    """Return what the loss changes, beside what other choices change.

    Args:
        overview: Main arenas on a frozen network.
        trained: Arenas in which more layers are trained.
        swept: Smallest and largest effect of a factor over methods, by description.
    """
    gains = list(overview.gains.values())
    found = [
        *(
            Effect(
                f"training a layer with any of these losses, {arena.dataset}",
                _range(list(arena.gains.values())),
            )
            for arena in overview.arenas
        ),
        Effect("the best mean instead of the median loss", f"{gains[0] - median(gains):+.1f}"),
    ]
    together = [
        100 * (arena.means[m] - one[m])
        for arena in overview.arenas
        for one in [arena.scores("separated", "map_at_r")]
        for m in arena.methods
    ]
    found.append(Effect("four concatenated models instead of one", _range(together)))
    for arena in trained:
        rivals = [other.means for other in overview.arenas if other.dataset == arena.dataset]
        for rival in rivals:
            changes = [100 * (arena.means[m] - rival[m]) for m in arena.methods if m in rival]
            what = {"tail": "the upper layers trained too", "finetune": "all layers trained too"}[arena.mode]
            found.append(Effect(f"{what}, {arena.dataset}", _range(changes)))
    found += [Effect(what, f"{low:+.1f} to {high:+.1f}") for what, (low, high) in swept.items()]
    return found


def _range(values: Sequence[float]) -> str:
    """Return the least and the largest value, or one number if they round to the same."""
    low, high = f"{min(values):+.1f}", f"{max(values):+.1f}"
    return low if low == high else f"{low} to {high}"
