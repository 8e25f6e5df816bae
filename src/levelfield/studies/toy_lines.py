"""Does rho-regularisation keep features that training does not ask for? The toy lines, over many seeds.

The paper shows one run of each toy (Figures 6 and 11). Here each is trained for many seeds, with and without
switches, from the same start and on the same batches, and the differences are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from scipy.stats import binomtest
from torch import Tensor

from levelfield.errors import UsageError
from levelfield.metrics import evaluate
from levelfield.records import write_json, write_text
from levelfield.reports import Table
from levelfield.reports.figures import write_chart
from levelfield.stats import Interval, t_interval
from levelfield.studies._toy_drawing import toy_chart
from levelfield.studies._toy_training import (
    MARGIN,
    Networks,
    Toy,
    diagonal_lines,
    train,
    vertical_lines,
)

PUBLISHED_P_SWITCH = 0.001


@dataclass(frozen=True)
class Share:
    """How many of the seeds, with a 95% interval (Wilson's)."""

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Outcome:
    """One toy with one ``p_switch``, against the same seeds without switches.

    Attributes:
        toy: Which data.
        p_switch: The probability of a switch.
        seeds: How many.
        map_at_r: Of the test classes, regularised.
        plain_map_at_r: Of the test classes, not regularised.
        gain: Difference of the two, seed by seed.
        better: Share of seeds in which the regularised network separates the test classes better.
        worse: Share in which it does so worse; the rest are equal.
        gap: Smallest distance between the means of two test classes, regularised. MAP@R looks at ranks only,
            so it may be high for classes that the eye sees in one point.
        plain_gap: The same, not regularised.
        wider: Share of seeds in which the regularised gap is wider.
        decay: Spectral decay of the training embeddings, KL(uniform || singular values), regularised.
        plain_decay: The same, not regularised.
        lower_decay: Share of seeds in which the regularised one is lower.
    """

    toy: str
    p_switch: float
    seeds: int
    map_at_r: Interval
    plain_map_at_r: Interval
    gain: Interval
    better: Share
    worse: Share
    gap: Interval
    plain_gap: Interval
    wider: Share
    decay: Interval
    plain_decay: Interval
    lower_decay: Share


def run(
    out: Path,
    *,
    seeds: int = 200,
    seed: int = 0,
    p_switch: Sequence[float] = (PUBLISHED_P_SWITCH, 0.01, 0.1, 0.3),
    advance: Callable[[str], None] | None = None,
) -> list[Outcome]:
    """Train, compare, and write ``toy-lines.md``, ``toy-lines.json`` and a figure per toy into ``out``.

    Args:
        out: A folder; made if it does not exist.
        seeds: How many networks to train for each toy and each value of ``p_switch``.
        seed: The first of them; the one that the figures show, good or bad.
        p_switch: Probabilities to try; the first is the one that the figures show.
        advance: Called with a description before each piece of work.
    """
    if seeds < 2 or not p_switch or not all(0 < p <= 1 for p in p_switch):
        raise UsageError(
            f"toy-lines needs at least 2 seeds and values of p_switch above 0 up to 1, "
            f"got {seeds} and {list(p_switch)}"
        )
    out.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    for toy in (diagonal_lines(), vertical_lines()):
        trained = {}
        for p in (0.0, *p_switch):
            if advance is not None:
                advance(f"{toy.name} lines, p_switch {p:g}")
            trained[p] = train(toy, p_switch=p, seeds=range(seed, seed + seeds))
        outcomes += [compare(toy, trained[0.0], trained[p], p_switch=p) for p in p_switch]
        chart = toy_chart(toy, trained[0.0], trained[p_switch[0]], p_switch=p_switch[0])
        write_chart(chart, out, f"toy-lines-{toy.name}")
    write_json(out / "toy-lines.json", [asdict(each) for each in outcomes])
    write_text(out / "toy-lines.md", as_markdown(outcomes))
    return outcomes


@torch.no_grad()
def compare(toy: Toy, plain: Networks, regularised: Networks, *, p_switch: float) -> Outcome:
    """Count in how many seeds the regularised networks do better."""
    test, training = toy.test.flatten(0, 1), toy.train.flatten(0, 1)
    before, after = separations(plain(test), toy), separations(regularised(test), toy)
    gap_before, gap_after = class_gaps(plain(test), toy), class_gaps(regularised(test), toy)
    decay_before, decay_after = spectral_decays(plain(training)), spectral_decays(regularised(training))
    return Outcome(
        toy=toy.name,
        p_switch=p_switch,
        seeds=len(before),
        map_at_r=_mean(after),
        plain_map_at_r=_mean(before),
        gain=_mean(after - before),
        better=_share(after > before),
        worse=_share(after < before),
        gap=_mean(gap_after),
        plain_gap=_mean(gap_before),
        wider=_share(gap_after > gap_before),
        decay=_mean(decay_after),
        plain_decay=_mean(decay_before),
        lower_decay=_share(decay_after < decay_before),
    )


def separations(embeddings: Tensor, toy: Toy) -> Tensor:
    """MAP@R of the test classes for each network's embeddings (S x n x 2), (S,). A tie counts as a miss."""
    labels = torch.arange(len(toy.test)).repeat_interleave(toy.test.shape[1])
    return torch.tensor([evaluate(each, labels, metrics=("map_at_r",))["map_at_r"] for each in embeddings])


def class_gaps(embeddings: Tensor, toy: Toy) -> Tensor:
    """Distance between the nearest two class means of each network's test embeddings (S x n x 2), (S,)."""
    classes, samples = toy.test.shape[:2]
    means = embeddings.reshape(-1, classes, samples, 2).mean(dim=2)
    first, second = torch.triu_indices(classes, classes, offset=1)
    return (means[:, first] - means[:, second]).square().sum(dim=2).sqrt().amin(dim=1)


def spectral_decays(embeddings: Tensor) -> Tensor:
    """KL(uniform || singular values) of each network's embeddings (S x n x 2), (S,).

    Lower is less compressed. Of two dimensions both values count; on real embeddings the paper leaves the
    largest out.

    Example:
        >>> round(spectral_decays(torch.diag(torch.tensor([3.0, 1.0]))[None]).item(), 3)
        0.144
    """
    values: Tensor = torch.linalg.svdvals(embeddings.double())
    shares = values / values.sum(dim=1, keepdim=True)
    return -(shares.clamp(min=1e-12) * shares.shape[1]).log().mean(dim=1)


def as_markdown(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a table, with what it says in words."""
    lines = [
        "# Toy lines: rho-regularisation over many seeds",
        "",
        f"{outcomes[0].seeds} seeds; the same start and the same batches with and without switches. MAP@R is "
        "of the test classes, the gap lies between the nearest two of their means (training asks for "
        f"{MARGIN} between samples), spectral decay is of the training embeddings. Intervals are at 95%.",
        "",
        outcomes_table(outcomes).markdown(),
        "",
        *(f"- {sentence(each)}" for each in outcomes),
        "",
    ]
    return "\n".join(lines)


def outcomes_table(outcomes: Sequence[Outcome]) -> Table:
    """A row per toy and ``p_switch``: without switches, with them, and in how many seeds they help."""
    heads = ("toy", "p_switch", "MAP@R without", "with", "gain", "better", "worse", "gap without", "with")
    rows = [
        [
            each.toy,
            f"{each.p_switch:g}",
            f"{each.plain_map_at_r.mean:.3f}",
            f"{each.map_at_r.mean:.3f}",
            f"{each.gain.mean:+.3f} ({each.gain.low:+.3f} to {each.gain.high:+.3f})",
            _percent(each.better),
            _percent(each.worse),
            f"{each.plain_gap.mean:.3f}",
            f"{each.gap.mean:.3f}",
            _percent(each.wider),
            f"{each.plain_decay.mean:.3f}",
            f"{each.decay.mean:.3f}",
            _percent(each.lower_decay),
        ]
        for each in outcomes
    ]
    return Table.of([*heads, "wider", "decay without", "with", "lower"], rows)


def sentence(outcome: Outcome) -> str:
    """What an outcome says, in words."""
    return (
        f"{outcome.toy} lines, p_switch {outcome.p_switch:g}: the test classes are separated "
        f"{_verdict(outcome.gain)}; the gap is wider in {outcome.wider.share:.0%} of the "
        f"seeds, the spectral decay lower in {outcome.lower_decay.share:.0%}."
    )


def _verdict(gain: Interval) -> str:
    if gain.low > 0:
        return "better with switches"
    if gain.high < 0:
        return "worse with switches"
    return "neither better nor worse with switches, as far as these seeds tell"


def _percent(share: Share) -> str:
    return f"{share.share:.0%} ({share.low:.0%} to {share.high:.0%})"


def _share(hits: Tensor) -> Share:
    interval = binomtest(int(hits.sum()), len(hits)).proportion_ci(method="wilson")
    return Share(float(hits.double().mean()), float(interval.low), float(interval.high))


def _mean(values: Tensor) -> Interval:
    return t_interval(values.double().numpy())
