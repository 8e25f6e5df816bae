"""Answers for readers who choose a loss, computed from the arenas: docs/which-loss.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from arenas import Arena
from levelfield import losses, methods
from levelfield.analysis import Repeat
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
    own = [arena.gains[best] for arena in overview.arenas]
    gain = f"{_range(own)} points over the pretrained features"
    found = [Answer("one default", best, f"{where}, {gain}; no method was found better on any dataset")]
    pairwise = [m for m in candidates if not _has_class_weights(m, overview)]
    if pairwise:
        found.append(
            Answer(
                "no weights per class: many classes, or labels that change",
                pairwise[0],
                _gap(overview, pairwise[0]),
            )
        )
    untuned = untuned_gap(overview)
    tunable = [m for m in candidates if m in untuned]
    if tunable:
        least = min(tunable, key=lambda m: untuned[m])
        why = (
            f"tuning improved its paper's values by {untuned[least]:.1f} validation points, "
            f"the median method's by {median(untuned.values()):.1f}; {_gap(overview, least)}"
        )
        found.append(Answer("no time to tune", least, why))
    timed = [m for m in candidates if m in cost]
    if timed:
        cheapest = min(timed, key=lambda m: cost[m])
        most = max(cost, key=lambda m: cost[m])
        why = f"its step takes {cost[cheapest]:.1f} times that of contrastive, {most}'s {cost[most]:.1f}"
        found.append(Answer("the cheapest step", cheapest, f"{why}; {_gap(overview, cheapest)}"))
    return [*_merged(found), *_when_trained(trained)]


def _merged(found: list[Answer]) -> list[Answer]:
    """Return one row per method; the first reason of a method is kept."""
    rows: dict[str, Answer] = {}
    for each in found:
        first = rows.get(each.method)
        wish = each.wish if first is None else f"{first.wish}; {each.wish}"
        rows[each.method] = Answer(wish, each.method, each.why if first is None else first.why)
    return list(rows.values())


def _when_trained(trained: Sequence[Arena]) -> list[Answer]:
    if not trained:
        return []
    common = [m for m in trained[0].methods if all(m in arena.leaders for arena in trained)]
    if not common:
        return []
    where = listed([arena.dataset for arena in trained])
    why = f"no other of {len(trained[0].methods)} methods was found better, on {where}"
    return [Answer("to train more layers than a head", listed(common), why)]


def _gap(overview: Overview, method: str) -> str:
    behind, most = overview.behind(method)
    if behind <= 0:
        return "it has the best mean"
    return f"{behind:.1f} points behind the best mean, at most {most:.1f}"


def _has_class_weights(name: str, overview: Overview) -> bool:
    specs = {spec.name: spec for spec in overview.arenas[0].analysis.comparison.experiment.methods}
    return losses.registry[methods.resolve_method(specs[name]).loss].card.kind == "classification"


def untuned_gap(overview: Overview) -> dict[str, float]:
    """Return what tuning added to the papers' values, by validation score in points; mean over searches.

    The first trial of each search has the paper's values. The best of several trials is chosen by the same
    scores, so the gap is an upper bound. Methods without such trials are left out.
    """
    found: dict[str, list[float]] = {}
    for arena in overview.arenas:
        if arena.analysis.comparison.experiment.search.first != "defaults":
            continue
        for result in arena.analysis.comparison.trained:
            gaps = [gap for repeat in result.repeats if (gap := _tuning_gain(repeat)) is not None]
            if gaps:
                found.setdefault(result.method, []).append(fmean(gaps))
    return {method: fmean(gaps) for method, gaps in found.items() if method in overview.gains}


def _tuning_gain(repeat: Repeat) -> float | None:
    """Return the points between the best and the first trial of a search; None if they are not on record."""
    first, best = (repeat.trials[0].score if repeat.trials else None), repeat.selection.score
    return None if first is None or best is None else 100 * abs(best - first)


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
    every = [arena.gains[method] for arena in overview.arenas for method in arena.methods]
    found = [
        Effect("any of these losses instead of none", _range(every)),
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
