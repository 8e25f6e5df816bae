"""What a budget can tell, in words."""

from __future__ import annotations

from levelfield.compare import Power
from levelfield.records import Measure


def power_text(power: Power, measure: Measure, *, chance: float) -> str:
    """The answer in a few lines: this budget, other numbers of reruns, and the wanted difference."""
    unit = " points" if measure.unit == "percent" else ""

    def shown(value: float) -> str:
        return f"{measure.shown(value)}{unit}"

    searches = f"{power.repeats} searches with {power.reruns}" if power.repeats > 1 else f"{power.reruns}"
    lines = [
        f"{power.methods} methods, {power.classes} test classes, {searches} reruns: a difference of "
        f"{shown(power.detectable)} in {measure.label} is found with a chance of {chance:.0%}.",
        "With other numbers of reruns: "
        + ", ".join(f"{reruns}: {shown(found)}" for reruns, found in power.ladder.items())
        + ".",
        "Chance comes from "
        + ", ".join(f"{name} ({share:.0%})" for name, share in shares(power).items())
        + ".",
    ]
    if power.parts.search is None:
        lines.append(
            "Luck in the search is unknown and not counted: each method was searched once (search.repeats)."
        )
    if power.wanted is not None:
        lines.append(_answer(power, shown(power.wanted)))
    return "\n".join(lines)


def shares(power: Power) -> dict[str, float]:
    """Which part of the variance of a difference comes from where, under the recorded budget."""
    parts, runs = power.parts, power.reruns * power.repeats
    search = 0.0 if parts.search is None or power.repeats < 2 else parts.search / power.repeats
    found = {
        "the classes of the test set": parts.classes / power.classes,
        "seeds": parts.seeds / runs + parts.residual / (power.classes * runs),
        "the search": search,
    }
    total = sum(found.values()) or 1.0
    return {name: variance / total for name, variance in found.items() if variance}


def _answer(power: Power, wanted: str) -> str:
    if power.budget is None:
        return (
            f"No number of reruns or searches finds {wanted} on these {power.classes} classes: "
            f"that takes a larger test set{', or fewer methods' if power.methods > 2 else ''}."
        )
    searches = f"{power.budget.repeats} searches with " if power.budget.repeats > 1 else ""
    return f"To find {wanted}: {searches}{power.budget.reruns} reruns per method are the cheapest way."
