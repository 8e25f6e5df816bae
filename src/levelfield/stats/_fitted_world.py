"""World fitted to a record, and the rate of false alarms in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from levelfield.stats._chance import known_chance
from levelfield.stats._judge import judge
from levelfield.stats._replicate_noise import CENTERS, WIDTHS, ReplicateNoise
from levelfield.stats._table import ScoreTable
from levelfield.stats._world import World


def fit_world(table: ScoreTable) -> World:
    """Return the world that a record suggests: its own spreads, and how unequal they are between methods.

    Fixed methods are left out. Missing reruns are not simulated.
    """
    table = table.reorder(np.nonzero(~table.fixed)[0])
    size = len(table.methods)
    chance = known_chance(table)
    classes = 1 if table.class_shares is None else len(table.class_shares)
    class_sd = float(np.sqrt(np.trace(chance.classes) / max(size - 1, 1) * classes))
    residual = float(np.sqrt(np.mean(chance.overlap) * classes))
    runs = table.runs
    counts = np.isfinite(runs).sum(axis=2, keepdims=True)  # 0 for a search that failed
    within = runs - np.nansum(runs, axis=2, keepdims=True) / np.maximum(counts, 1)
    several = table.repeats > 1
    reruns = int(counts.max())
    world = World(
        methods=size,
        searches=table.repeats,
        reruns=reruns,
        classes=max(classes, 2),
        class_sd=class_sd,
        residual_sd=residual * (np.sqrt(reruns) if several else 1.0),
        rerun_sd=0.0,
        rerun_width=0.0,
    )
    noise = chance.noise
    if not isinstance(noise, ReplicateNoise):
        return world
    center = width = 0.0
    typical = float(np.mean(noise.squares / np.maximum(noise.counts - 1, 1)))
    if not noise.paired and noise.varies:
        weights = noise.hyper_weights.reshape(len(CENTERS), len(WIDTHS))
        center, width = float(weights.sum(axis=1) @ CENTERS), float(weights.sum(axis=0) @ WIDTHS)
        typical = noise.typical
    found = float(np.sqrt(typical * np.exp(center)))
    if not several:
        own = found**2 + noise.shared
        return replace(
            world,
            rerun_sd=float(np.sqrt(own)),
            rerun_width=width / 2,
            shared=noise.shared / own if own else 0.0,
        )
    df = np.maximum(np.isfinite(runs).sum(axis=2) - 1, 0).sum(axis=1)
    variances = np.nansum(within**2, axis=(1, 2)) / np.maximum(df, 1)
    logs = np.log(np.maximum(variances[df > 0], 1e-12)) if (df > 0).any() else np.zeros(1)
    excess = max(float(logs.var()) - 2 / max(float(df.mean()), 1.0), 0.0)
    return replace(
        world,
        rerun_sd=float(np.exp(logs.mean() / 2)) if (df > 0).any() else 0.0,
        rerun_width=float(np.sqrt(excess)) / 2,
        search_sd=found,
        search_width=width / 2,
    )


@dataclass(frozen=True)
class AlarmRate:
    """Share of simulated records without differences in which some pair was called different.

    Attributes:
        simulations: Number of simulated records.
        alarms: Number of records with a false alarm.
        refused: Number of records that were not judged.
    """

    simulations: int
    alarms: int
    refused: int

    @property
    def sentence(self) -> str:
        """The rate as a sentence."""
        rate = 100 * self.alarms / self.simulations
        refused = f", and {self.refused} were not judged" if self.refused else ""
        return (
            f"In {self.simulations} simulated records like this one, without any difference between methods, "
            f"{rate:.1f}% had a false alarm{refused}."
        )


def alarm_rate(world: World, *, simulations: int = 500, draws: int = 500, seed: int = 0) -> AlarmRate:
    """Judge simulated records of a world without differences, and count false alarms."""
    alarms = refused = 0
    generator = np.random.default_rng(seed)
    for number in range(simulations):
        judgment = judge(world.draw(generator), draws=draws, seed=number)
        alarms += any(pair.verdict in ("better", "worse") for pair in judgment.pairs)
        refused += bool(judgment.refusal)
    return AlarmRate(simulations, alarms, refused)
