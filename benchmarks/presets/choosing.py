"""Shared by the scripts that choose a preset's settings: resumable runs on validation classes.

Every setting is tried with several methods of each kind of loss, with the hyperparameters of their
papers. Classification losses are tried with several rates of their class weights; the best rate counts,
as in a search. Records go to the named directory, and a second start computes only missing runs. The test
set is never opened.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import levelfield as lf
from levelfield.methods import LOSS_LR
from levelfield.protocol import resolve_experiment
from levelfield.records import RunDirectory
from levelfield.train import RunJob, run_job

METHODS = {
    "embedding": ("contrastive", "triplet", "multi_similarity", "ntxent"),
    "classification": ("normalized_softmax", "arcface", "proxy_nca"),
}
LOSS_RATES = (1e-2, 1e-1)


@dataclass(frozen=True)
class Score:
    """Validation score of one method under one setting: the mean over folds.

    Attributes:
        within: Score of a run of this many epochs. Without a schedule, a shorter run is the beginning of a
            longer one.
    """

    kind: str
    method: str
    setting: str
    score: float
    epoch0: float
    best_epoch: float
    loss_lr: float | None
    within: dict[int, float]


def measure(
    settings: Mapping[str, Mapping[str, Any]],
    *,
    preset: str,
    dataset: Mapping[str, Any],
    out: Path,
    folds: Sequence[int] = (0, 1),
    methods: Mapping[str, Sequence[str]] = METHODS,
    loss_rates: Sequence[float] = LOSS_RATES,
) -> list[Score]:
    """Train every method under every setting; print each score."""
    found = []
    for (name, setting), kind in itertools.product(settings.items(), methods):
        for method in methods[kind]:
            rates: Sequence[float | None] = loss_rates if kind == "classification" else (None,)
            tried = {
                rate: run_scores(setting, method, rate, preset=preset, dataset=dataset, out=out, folds=folds)
                for rate in rates
            }
            rate, best = max(tried.items(), key=lambda item: fmean(item[1].best))
            score = Score(
                kind=kind,
                method=method,
                setting=name,
                score=fmean(best.best),
                epoch0=fmean(best.first),
                best_epoch=fmean(best.best_epochs),
                loss_lr=rate,
                within=best_within(tried.values()),
            )
            print(
                f"{name:>28}  {method:<20} MAP@R {100 * score.score:6.2f} (before {100 * score.epoch0:5.2f}, "
                f"best epoch {score.best_epoch:4.1f}, loss_lr {rate})",
                flush=True,
            )
            found.append(score)
    return found


@dataclass(frozen=True)
class RunScores:
    """Validation MAP@R of a method's runs, one per fold and seed.

    Attributes:
        best: Scores at the best epoch.
        first: Scores before training.
        best_epochs: Best epochs.
        curves: Scores by epoch.
    """

    best: list[float]
    first: list[float]
    best_epochs: list[int]
    curves: list[dict[int, float]]

    def within(self, epochs: int) -> float:
        """Return the mean of the best scores up to this epoch."""
        return fmean(max(v for epoch, v in curve.items() if epoch <= epochs) for curve in self.curves)


def best_within(tried: Iterable[RunScores]) -> dict[int, float]:
    """Return the score of the better rate of class weights up to each measured epoch."""
    tried = list(tried)
    lengths = sorted({epoch for scores in tried for curve in scores.curves for epoch in curve})
    return {length: max(scores.within(length) for scores in tried) for length in lengths}


def run_scores(
    setting: Mapping[str, Any],
    method: str,
    loss_lr: float | None,
    *,
    preset: str,
    dataset: Mapping[str, Any],
    out: Path,
    folds: Sequence[int],
    seeds: Sequence[int] = (0,),
) -> RunScores:
    """Train ``method`` on every fold with every seed; finished runs are read from their records."""
    fixed: dict[str, Any] = {} if loss_lr is None else {LOSS_LR: loss_lr}
    if method == "proxy_nca":
        fixed["include_positive"] = True  # as in the presets
    values = {"name": "choose", "preset": preset, "dataset": dict(dataset), **setting}
    values |= {"methods": [{"name": method, "set": fixed}], "hyperparameters": "defaults"}
    resolved = resolve_experiment(lf.Experiment.build(**values))
    (out / "runs").mkdir(parents=True, exist_ok=True)
    scores = RunScores([], [], [], [])
    for fold, seed in itertools.product(folds, seeds):
        spec = resolved.run_spec(resolved.methods[0], {}, fold=fold, seed=resolved.seed("choose", seed, fold))
        directory = out / "runs" / spec.run_id
        result = run_job(RunJob(spec, resolved.resources, directory))
        scores.best.append(result.validation.get("map_at_r", 0.0))
        scores.curves.append({line.epoch: line.scores["map_at_r"] for line in RunDirectory(directory).log()})
        scores.first.append(scores.curves[-1][0])
        scores.best_epochs.append(result.best_epoch)
    return scores


def report(scores: Sequence[Score], out: Path) -> None:
    """Print the mean of each setting by kind of loss, best first, and write all scores to ``out``."""
    for kind in dict.fromkeys(score.kind for score in scores):
        of_kind = [score for score in scores if score.kind == kind]
        means = {
            name: fmean(score.score for score in of_kind if score.setting == name)
            for name in dict.fromkeys(score.setting for score in of_kind)
        }
        print(f"\n{kind} losses: mean validation MAP@R over {len({s.method for s in of_kind})} methods")
        lengths = sorted(of_kind[0].within)
        print(f"{'by epoch':>28}          " + "".join(f"{length:7}" for length in lengths))
        for name, mean in sorted(means.items(), key=lambda item: -item[1]):
            curve = [
                fmean(score.within.get(length, score.score) for score in of_kind if score.setting == name)
                for length in lengths
            ]
            print(f"{name:>28}  {100 * mean:6.2f}  " + "".join(f"{100 * value:7.2f}" for value in curve))
    out.mkdir(parents=True, exist_ok=True)
    (out / "scores.json").write_text(json.dumps([vars(score) for score in scores], indent=1) + "\n")
