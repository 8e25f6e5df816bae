"""What the scripts that choose a preset's settings share: runs on validation classes, kept and resumable.

Every setting is tried with several methods of each kind of loss, with the hyperparameters that their papers
recommend; classification losses also with several rates of their class weights, the best of which counts, as
a search would find it. Runs are levelfield's own: their records lie in the folder that is named, and a second
start computes only what is missing. The test set is never opened: nothing here asks for a permit.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import levelfield as lf
from levelfield.methods import LOSS_LR
from levelfield.protocol import resolve
from levelfield.train import RunJob, run_job

METHODS = {
    "embedding": ("contrastive", "triplet", "multi_similarity", "ntxent"),
    "classification": ("normalized_softmax", "arcface", "proxy_nca"),
}
LOSS_RATES = (1e-2, 1e-1)


@dataclass(frozen=True)
class Score:
    """The validation score of one method under one setting: the mean over folds."""

    kind: str
    method: str
    setting: str
    score: float
    epoch0: float
    best_epoch: float
    loss_lr: float | None


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
    """Train every method under every setting; print each score when it is there."""
    scores = []
    for (name, setting), kind in itertools.product(settings.items(), methods):
        for method in methods[kind]:
            rates: Sequence[float | None] = loss_rates if kind == "classification" else (None,)
            found = [
                _score(
                    name, setting, kind, method, rate, preset=preset, dataset=dataset, out=out, folds=folds
                )
                for rate in rates
            ]
            best = max(found, key=lambda score: score.score)
            print(
                f"{name:>28}  {method:<20} MAP@R {100 * best.score:6.2f}  (epoch 0: {100 * best.epoch0:5.2f}, "
                f"best epoch {best.best_epoch:4.1f}, loss_lr {best.loss_lr})",
                flush=True,
            )
            scores.append(best)
    return scores


def _score(
    name: str,
    setting: Mapping[str, Any],
    kind: str,
    method: str,
    loss_lr: float | None,
    *,
    preset: str,
    dataset: Mapping[str, Any],
    out: Path,
    folds: Sequence[int],
) -> Score:
    fixed: dict[str, Any] = {} if loss_lr is None else {LOSS_LR: loss_lr}
    if method == "proxy_nca":
        fixed["include_positive"] = True  # as in the presets
    values = {"name": "choose", "preset": preset, "dataset": dict(dataset), **setting}
    values |= {"methods": [{"name": method, "set": fixed}], "hyperparameters": "defaults"}
    resolved = resolve(lf.Experiment.build(**values))
    chosen = resolved.methods[0]
    results, firsts = [], []
    for fold in folds:
        spec = resolved.run_spec(chosen, {}, fold=fold, seed=resolved.seed("choose", 0, fold))
        folder = out / "runs" / spec.run_id
        results.append(run_job(RunJob(spec, resolved.resources, folder)))
        firsts.append(lf.records.RunFolder(folder).log()[0].scores["map_at_r"])
    values_found = [result.validation.get("map_at_r", 0.0) for result in results]
    return Score(
        kind=kind,
        method=method,
        setting=name,
        score=fmean(values_found),
        epoch0=fmean(firsts),
        best_epoch=fmean(result.best_epoch for result in results),
        loss_lr=loss_lr,
    )


def report(scores: Sequence[Score], out: Path) -> None:
    """Print the mean of each setting by kind of loss, name the best, and keep all scores in ``out``."""
    for kind in dict.fromkeys(score.kind for score in scores):
        of_kind = [score for score in scores if score.kind == kind]
        means = {
            name: fmean(score.score for score in of_kind if score.setting == name)
            for name in dict.fromkeys(score.setting for score in of_kind)
        }
        print(f"\n{kind} losses: mean validation MAP@R over {len({s.method for s in of_kind})} methods")
        for name, mean in sorted(means.items(), key=lambda item: -item[1]):
            print(f"{name:>28}  {100 * mean:6.2f}")
    out.mkdir(parents=True, exist_ok=True)
    (out / "scores.json").write_text(json.dumps([vars(score) for score in scores], indent=1) + "\n")
