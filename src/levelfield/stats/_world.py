"""Simulated records with known truth, like a real record or harder than any."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from levelfield.stats._table import Array, ScoreTable

BadKind = Literal["same", "exponential", "own"]


@dataclass(frozen=True, kw_only=True)
class World:
    """Recipe of simulated records, with standard deviations in the unit of scores and widths of logarithms.

    Attributes:
        methods: Number of methods; all are equal.
        searches: Searches per method; 1 has no search luck, because verdicts are then about its selection.
        reruns: Reruns per search.
        classes: Number of test classes, all of one size.
        class_sd: Standard deviation of one class, for one method.
        class_width: Width of ``class_sd`` over methods.
        residual_sd: Standard deviation of one class in one rerun.
        rerun_sd: Typical standard deviation of a rerun.
        rerun_width: Its width over methods.
        shared: Share of a rerun's variance that all methods have in common.
        search_sd: Typical standard deviation of a search.
        search_width: Its width over methods.
        heavy: True for t-distributions with 3 degrees of freedom in all places.
        bad: Share of searches (or of reruns, with one search) that go badly.
        drop: Loss of a bad one: "same" and "exponential" in the unit of scores, "own" in own deviations.
        bad_kind: "same": one loss for all; "exponential": losses vary, ``drop`` is their mean; "own": a
            multiple of the method's own standard deviation.
        wild: Factor by which the first method is less stable than a typical one.
    """

    methods: int
    searches: int
    reruns: int
    classes: int
    class_sd: float
    class_width: float = 0.25
    residual_sd: float = 0.0
    rerun_sd: float
    rerun_width: float
    shared: float = 0.0
    search_sd: float = 0.0
    search_width: float = 0.0
    heavy: bool = False
    bad: float = 0.0
    drop: float = 0.0
    bad_kind: BadKind = "own"
    wild: float = 1.0

    def draw(self, generator: np.random.Generator, gains: Array | None = None) -> ScoreTable:
        """Simulate one record.

        Args:
            generator: Source of random numbers.
            gains: True differences of the methods from a common score; 0 by default.
        """

        def noise(*shape: int) -> Array:
            if self.heavy:
                return np.asarray(generator.standard_t(3, shape) / np.sqrt(3))
            return generator.standard_normal(shape)

        def spreads(typical: float, width: float) -> Array:
            return typical * np.exp(width * generator.standard_normal(self.methods))

        methods, searches, reruns, classes = self.methods, self.searches, self.reruns, self.classes
        class_sd = spreads(self.class_sd, self.class_width)
        rerun_sd, search_sd = (
            spreads(self.rerun_sd, self.rerun_width),
            spreads(self.search_sd, self.search_width),
        )
        several = searches > 1
        luck, typical = (search_sd, self.search_sd) if several else (rerun_sd, self.rerun_sd)
        if self.wild > 1:
            luck[0] = self.wild * typical
        runs = np.sqrt(self.shared) * noise(1, searches, reruns)
        runs = runs + np.sqrt(1 - self.shared) * noise(methods, searches, reruns)
        runs = rerun_sd[:, None, None] * runs
        if several:
            runs = runs + (search_sd[:, None] * noise(methods, searches))[:, :, None]
        shape = (methods, searches, 1) if several else (methods, 1, reruns)
        if self.bad:
            size = self.drop * (luck[:, None, None] if self.bad_kind == "own" else 1.0)
            losses = generator.exponential(1.0, shape) if self.bad_kind == "exponential" else np.ones(shape)
            runs = runs + size * (self.bad - (generator.random(shape) < self.bad) * losses)
        count = searches if several else reruns
        effects = class_sd[:, None, None] * noise(methods, 1, classes)
        per_replicate = reruns if several else 1
        effects = effects + self.residual_sd / np.sqrt(per_replicate) * noise(methods, count, classes)
        means = effects.mean(axis=2)
        runs = runs + (means[:, :, None] if several else means[:, None, :])
        if gains is not None:
            runs = runs + np.asarray(gains)[:, None, None]
        return ScoreTable(
            methods=tuple(str(m) for m in range(methods)),
            runs=runs,
            class_effects=(effects - means[..., None]) / classes,
            class_shares=np.full(classes, 1 / classes),
            fixed=np.zeros(methods, dtype=bool),
        )
