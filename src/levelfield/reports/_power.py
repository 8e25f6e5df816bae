"""Text output of ``levelfield power``."""

from __future__ import annotations

from collections.abc import Callable

from levelfield.analysis import PowerEstimate
from levelfield.records import MetricInfo


def power_text(power: PowerEstimate, metric_info: MetricInfo, *, chance: float) -> str:
    """Return the power estimate as text: this budget, other numbers of reruns, and the wanted difference."""
    unit = " points" if metric_info.unit == "percent" else ""

    def shown(value: float) -> str:
        return f"{metric_info.shown(value)}{unit}"

    searches = f"{power.repeats} searches with {power.reruns}" if power.repeats > 1 else f"{power.reruns}"
    lines = [
        f"{power.methods} methods, {power.classes} test classes, {searches} reruns: a difference of "
        f"{shown(power.detectable)} in {metric_info.label} is detected with a probability of {chance:.0%}.",
        "With other numbers of reruns: "
        + ", ".join(f"{reruns}: {shown(found)}" for reruns, found in power.ladder.items())
        + ".",
        *_searches_lines(power, shown),
        "Variance comes from "
        + ", ".join(f"{name} ({share:.0%})" for name, share in variance_shares(power).items())
        + ".",
    ]
    if power.parts.search is None:
        lines.append("Luck in the search is not included: each method was searched once (search.repeats).")
    if power.wanted is not None:
        lines.append(_budget_text(power, shown(power.wanted)))
    return "\n".join(lines)


def variance_shares(power: PowerEstimate) -> dict[str, float]:
    """Return the share of each source of variance in a difference, for the recorded budget."""
    parts, runs = power.parts, power.reruns * power.repeats
    search = 0.0 if parts.search is None or power.repeats < 2 else parts.search / power.repeats
    found = {
        "the classes of the test set": parts.classes / power.classes,
        "seeds": parts.seeds / runs + parts.residual / (power.classes * runs),
        "the search": search,
    }
    total = sum(found.values()) or 1.0
    return {name: variance / total for name, variance in found.items() if variance}


def _searches_lines(power: PowerEstimate, shown: Callable[[float], str]) -> list[str]:
    if not power.searches:
        return []
    found = ", ".join(f"{searches}: {shown(value)}" for searches, value in power.searches.items())
    return [f"With other numbers of searches: {found}."]


def _budget_text(power: PowerEstimate, wanted: str) -> str:
    if not power.plans:
        return (
            f"No number of searches or reruns detects {wanted}, even with {8 * power.classes} test classes; "
            f"compare {'fewer methods' if power.methods > 2 else 'methods that differ more'}."
        )
    lines = [f"To detect {wanted}, per method, cheapest first:"]
    for plan in power.plans:
        searches = f"{plan.repeats} searches of {plan.trials} trials with " if plan.repeats > 1 else ""
        hours = "" if power.seconds is None else f", {_duration(plan.runs * power.seconds)}"
        lines.append(
            f"  {searches}{plan.reruns} rerun{'s' if plan.reruns > 1 else ''}"
            f"{' each' if searches else ''} on {plan.classes} classes: {plan.runs} trainings{hours}"
        )
    if power.budget is None:
        lines.append(f"No number of searches or reruns detects it on these {power.classes} classes.")
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    for unit, size in (("hours", 3600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
