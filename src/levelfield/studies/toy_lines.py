"""Effect of rho-regularization on features that training does not need: the toy lines over many seeds.

The paper shows one run of each toy dataset (Figures 6 and 11). This study trains each with many seeds, with
and without switches, from the same initialization and on the same batches, and counts the differences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from scipy.stats import binomtest
from torch import Tensor

from levelfield.core.errors import UsageError
from levelfield.metrics import evaluate
from levelfield.records import write_json, write_text
from levelfield.reports import Table
from levelfield.reports.figures import write_chart
from levelfield.stats import Interval, t_interval
from levelfield.studies._toy_figure import toy_chart
from levelfield.studies._toy_training import (
    MARGIN,
    Networks,
    ToyLines,
    diagonal_lines,
    train,
    vertical_lines,
)

PUBLISHED_P_SWITCH = 0.001


@dataclass(frozen=True)
class SeedShare:
    """Share of the seeds, with Wilson's 95% interval."""

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class ToyLinesResult:
    """Comparison of networks with one ``p_switch`` and the same seeds without switches, on one dataset.

    Attributes:
        toy: Name of the dataset.
        p_switch: Probability of a switch.
        seeds: Number of seeds.
        map_at_r: MAP@R of the test classes, regularized.
        plain_map_at_r: MAP@R of the test classes, not regularized.
        gain: Difference of the two, seed by seed.
        better: Share of seeds in which the regularized network separates the test classes better.
        worse: Share of seeds in which it separates them worse; the rest are equal.
        gap: Smallest distance between the means of two test classes, regularized. MAP@R depends on ranks,
            so it may be high for classes that nearly coincide.
        plain_gap: Smallest distance, not regularized.
        wider: Share of seeds in which the regularized gap is wider.
        decay: Spectral decay of the training embeddings, KL(uniform || singular values), regularized.
        plain_decay: Spectral decay, not regularized.
        lower_decay: Share of seeds in which the regularized decay is lower.
    """

    toy: str
    p_switch: float
    seeds: int
    map_at_r: Interval
    plain_map_at_r: Interval
    gain: Interval
    better: SeedShare
    worse: SeedShare
    gap: Interval
    plain_gap: Interval
    wider: SeedShare
    decay: Interval
    plain_decay: Interval
    lower_decay: SeedShare


def run_study(
    out: Path,
    *,
    seeds: int = 200,
    seed: int = 0,
    p_switch: Sequence[float] = (PUBLISHED_P_SWITCH, 0.01, 0.1, 0.3),
    advance: Callable[[str], None] | None = None,
) -> list[ToyLinesResult]:
    """Train, compare, and write ``toy-lines.md``, ``toy-lines.json`` and a figure per dataset into ``out``.

    Args:
        out: Output directory; created if missing.
        seeds: Number of networks for each toy dataset and each value of ``p_switch``.
        seed: First seed; the figures show its network.
        p_switch: Probabilities to try; the figures show the first.
        advance: Called with a description before each step.
    """
    if seeds < 2 or not p_switch or not all(0 < p <= 1 for p in p_switch):
        raise UsageError(
            f"toy-lines needs at least 2 seeds and values of p_switch above 0 up to 1, "
            f"got {seeds} and {list(p_switch)}"
        )
    out.mkdir(parents=True, exist_ok=True)
    results: list[ToyLinesResult] = []
    for toy in (diagonal_lines(), vertical_lines()):
        trained = {}
        for p in (0.0, *p_switch):
            if advance is not None:
                advance(f"{toy.name} lines, p_switch {p:g}")
            trained[p] = train(toy, p_switch=p, seeds=range(seed, seed + seeds))
        results += [compare(toy, trained[0.0], trained[p], p_switch=p) for p in p_switch]
        chart = toy_chart(toy, trained[0.0], trained[p_switch[0]], p_switch=p_switch[0])
        write_chart(chart, out, f"toy-lines-{toy.name}")
    write_json(out / "toy-lines.json", [asdict(each) for each in results])
    write_text(out / "toy-lines.md", as_markdown(results))
    return results


@torch.no_grad()
def compare(toy: ToyLines, plain: Networks, regularized: Networks, *, p_switch: float) -> ToyLinesResult:
    """Compare regularized networks with plain ones of the same seeds."""
    test, training = toy.test.flatten(0, 1), toy.train.flatten(0, 1)
    before, after = separations(plain(test), toy), separations(regularized(test), toy)
    gap_before, gap_after = class_gaps(plain(test), toy), class_gaps(regularized(test), toy)
    decay_before, decay_after = spectral_decays(plain(training)), spectral_decays(regularized(training))
    return ToyLinesResult(
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


def separations(embeddings: Tensor, toy: ToyLines) -> Tensor:
    """Return the MAP@R (S) of each network's test embeddings (S x n x 2); a tie counts as a miss."""
    labels = torch.arange(len(toy.test)).repeat_interleave(toy.test.shape[1])
    return torch.tensor([evaluate(each, labels, metrics=("map_at_r",))["map_at_r"] for each in embeddings])


def class_gaps(embeddings: Tensor, toy: ToyLines) -> Tensor:
    """Return the smallest distance (S) between two class means of each network's embeddings (S x n x 2)."""
    classes, samples = toy.test.shape[:2]
    means = embeddings.reshape(-1, classes, samples, 2).mean(dim=2)
    first, second = torch.triu_indices(classes, classes, offset=1)
    return (means[:, first] - means[:, second]).square().sum(dim=2).sqrt().amin(dim=1)


def spectral_decays(embeddings: Tensor) -> Tensor:
    """Return KL(uniform || singular values) (S) of each network's embeddings (S x n x 2).

    Lower is less compressed. Both singular values count here; for real embeddings the paper leaves out the
    largest.

    Example:
        >>> round(spectral_decays(torch.diag(torch.tensor([3.0, 1.0]))[None]).item(), 3)
        0.144
    """
    values: Tensor = torch.linalg.svdvals(embeddings.double())
    shares = values / values.sum(dim=1, keepdim=True)
    return -(shares.clamp(min=1e-12) * shares.shape[1]).log().mean(dim=1)


def as_markdown(results: Sequence[ToyLinesResult]) -> str:
    """Return the results as a table, with one sentence per result."""
    lines = [
        "# Toy lines: rho-regularization over many seeds",
        "",
        f"{results[0].seeds} seeds; the same initialization and batches with and without switches. MAP@R is "
        "of the test classes, the gap is the distance between the nearest two of their means (the training "
        f"margin between samples is {MARGIN}), spectral decay is of the training embeddings. Intervals: 95%.",
        "",
        results_table(results).markdown(),
        "",
        *(f"- {sentence(each)}" for each in results),
        "",
    ]
    return "\n".join(lines)


def results_table(results: Sequence[ToyLinesResult]) -> Table:
    """Return a table with one row per dataset and ``p_switch``."""
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
        for each in results
    ]
    return Table.from_rows([*heads, "wider", "decay without", "with", "lower"], rows)


def sentence(result: ToyLinesResult) -> str:
    """Return a result as a sentence."""
    return (
        f"{result.toy} lines, p_switch {result.p_switch:g}: the test classes are separated "
        f"{_verdict(result.gain)}; the gap is wider in {result.wider.share:.0%} of the "
        f"seeds, the spectral decay lower in {result.lower_decay.share:.0%}."
    )


def _verdict(gain: Interval) -> str:
    if gain.low > 0:
        return "better with switches"
    if gain.high < 0:
        return "worse with switches"
    return "neither better nor worse with switches, as far as these seeds tell"


def _percent(share: SeedShare) -> str:
    return f"{share.share:.0%} ({share.low:.0%} to {share.high:.0%})"


def _share(hits: Tensor) -> SeedShare:
    interval = binomtest(int(hits.sum()), len(hits)).proportion_ci(method="wilson")
    return SeedShare(float(hits.double().mean()), float(interval.low), float(interval.high))


def _mean(values: Tensor) -> Interval:
    return t_interval(values.double().numpy())
