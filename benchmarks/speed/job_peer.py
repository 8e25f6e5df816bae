"""The whole job by hand: pytorch-metric-learning's losses, sampler and metrics, and Optuna.

    python -m benchmarks.speed.job_peer '{"methods": ["contrastive"], ...}' OUT

What an experienced user would write: features in memory, heads that start from PCA (computed once per
fold), one process per core with one thread each, a study per method, the best trial trained again with new
seeds, test scores of single and concatenated models in a CSV file. ``job.py`` compares it with levelfield.
"""

from __future__ import annotations

import copy
import csv
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import torch
from pytorch_metric_learning import losses
from pytorch_metric_learning.samplers import MPerClassSampler
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.speed.vectors import make_vectors

SIZE, BATCH = 128, 32
METRICS = ("precision_at_1", "r_precision", "mean_average_precision_at_r")


@dataclass(frozen=True)
class Job:
    """Amount of work, the same for both sides."""

    methods: tuple[str, ...]
    classes: int
    folds: int
    trials: int
    reruns: int
    epochs: int
    iterations: int
    evaluate_every: int
    workers: int


@cache
def features(classes: int) -> tuple[Tensor, Tensor]:
    """Return all features and labels; the last half of the classes is the test set."""
    pixels, labels = make_vectors(classes)
    return torch.from_numpy(pixels).flatten(1).float() / 255, torch.from_numpy(labels)


@cache
def fold_rows(classes: int, folds: int, fold: int) -> tuple[Tensor, Tensor]:
    """Return the training and validation rows of a fold: consecutive blocks of development classes."""
    _, labels = features(classes)
    held = torch.from_numpy(np.array_split(np.arange(classes // 2), folds)[fold])
    development = labels < classes // 2
    validation = torch.isin(labels, held)
    return (development & ~validation).nonzero()[:, 0], validation.nonzero()[:, 0]


@cache
def pca(classes: int, folds: int, fold: int) -> tuple[Tensor, Tensor]:
    """Return weights and bias of a head that starts from the main directions of the training rows."""
    x = features(classes)[0][fold_rows(classes, folds, fold)[0]]
    mean = x.mean(0)
    _, vectors = torch.linalg.eigh(torch.cov((x - mean).T))
    weight = vectors[:, -SIZE:].T.contiguous()
    return weight, -(weight @ mean)


def make_loss(method: str, parameters: dict[str, float], classes: int) -> nn.Module:
    """Return the peer's loss with these hyperparameters."""
    given = {name: value for name, value in parameters.items() if name != "loss_lr"}
    shape = {"num_classes": classes, "embedding_size": SIZE} if method == "arcface" else {}
    found: nn.Module = {
        "contrastive": losses.ContrastiveLoss,
        "triplet": losses.TripletMarginLoss,
        "multi_similarity": losses.MultiSimilarityLoss,
        "arcface": losses.ArcFaceLoss,
    }[method](**given, **shape)
    return found


def suggest(trial: optuna.Trial, method: str) -> dict[str, float]:
    """Return hyperparameters within levelfield's own ranges."""
    log = partial(trial.suggest_float, log=True)
    match method:
        case "contrastive":
            low = trial.suggest_float("pos_margin", -0.2, 1.0)
            return {"pos_margin": low, "neg_margin": trial.suggest_float("neg_margin", 0.0, 2.0)}
        case "triplet":
            return {"margin": trial.suggest_float("margin", 0.0, 1.0)}
        case "multi_similarity":
            weights = {"alpha": log("alpha", 0.01, 50.0), "beta": log("beta", 1.0, 200.0)}
            return weights | {"base": trial.suggest_float("base", 0.0, 1.0)}
        case _:
            margin = trial.suggest_float("margin", 0.0, 60.0)
            return {"margin": margin, "scale": log("scale", 1.0, 300.0), "loss_lr": log("loss_lr", 1e-6, 1.0)}


def batches(labels: Tensor, method: str, steps: int) -> Iterator[Tensor]:
    """Yield the rows of ``steps`` batches of the peer's sampler."""
    per_class = 1 if method == "arcface" else 4
    if per_class == 1:
        per_class = 2 if int(labels.unique().numel()) < BATCH else 1
    sampler = MPerClassSampler(labels, m=per_class, batch_size=BATCH, length_before_new_iter=steps * BATCH)
    rows = torch.tensor(list(sampler))
    yield from rows.view(-1, BATCH)


def score(embeddings: Tensor, labels: Tensor) -> dict[str, float]:
    """Return the three metrics of the peer's calculator at its best setting."""
    calculator = AccuracyCalculator(include=METRICS, k="max_bin_count", device=torch.device("cpu"))
    found: dict[str, float] = calculator.get_accuracy(embeddings, labels)
    return found


def train(
    job: Job, method: str, parameters: dict[str, float], fold: int, seed: int
) -> tuple[float, nn.Linear]:
    """Train one head; return its best validation score and the head at that moment."""
    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the peer's sampler draws from the global generator
    x, all_labels = features(job.classes)
    train_rows, validation_rows = fold_rows(job.classes, job.folds, fold)
    inputs, labels = x[train_rows], all_labels[train_rows]
    head = nn.Linear(x.shape[1], SIZE)
    weight, bias = pca(job.classes, job.folds, fold)
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.copy_(bias)
    classes = torch.unique(labels, return_inverse=True)[1]
    loss = make_loss(method, parameters, int(classes.max()) + 1)
    groups: list[dict[str, Any]] = [{"params": head.parameters(), "weight_decay": 1e-4}]
    if "loss_lr" in parameters:
        groups.append({"params": loss.parameters(), "lr": parameters["loss_lr"]})
    optimizer = torch.optim.Adam(groups, lr=3e-4)

    def validate() -> float:
        with torch.inference_mode():
            made = F.normalize(head(x[validation_rows]))
        return score(made, all_labels[validation_rows])["mean_average_precision_at_r"]

    best, kept = validate(), copy.deepcopy(head)
    for epoch in range(1, job.epochs + 1):
        for rows in batches(labels, method, job.iterations):
            optimizer.zero_grad()
            loss(F.normalize(head(inputs[rows])), classes[rows]).backward()
            optimizer.step()
        if epoch % job.evaluate_every == 0 and (found := validate()) > best:
            best, kept = found, copy.deepcopy(head)
    return best, kept


def run_method(method: str, job: Job) -> list[dict[str, Any]]:
    """Search, train again with new seeds, and return the test scores of every rerun."""
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial: optuna.Trial) -> float:
        parameters = suggest(trial, method)
        return float(np.mean([train(job, method, parameters, fold, 0)[0] for fold in range(job.folds)]))

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0))
    study.optimize(objective, n_trials=job.trials)
    x, labels = features(job.classes)
    test = (labels >= job.classes // 2).nonzero()[:, 0]
    rows = []
    for rerun in range(job.reruns):
        heads = [train(job, method, study.best_params, fold, 1 + rerun)[1] for fold in range(job.folds)]
        with torch.inference_mode():
            made = [F.normalize(head(x[test])) for head in heads]
        alone = [score(one, labels[test]) for one in made]
        separated = {name: float(np.mean([one[name] for one in alone])) for name in METRICS}
        together = score(F.normalize(torch.cat(made, 1)), labels[test])
        rows.append({"method": method, "rerun": rerun, "setting": "separated", **separated})
        rows.append({"method": method, "rerun": rerun, "setting": "concatenated", **together})
    return rows


def run(job: Job, out: Path) -> None:
    """Run all methods on ``job.workers`` processes and write the scores."""
    work: Callable[[str], list[dict[str, Any]]] = partial(run_method, job=job)
    if job.workers > 1:
        with ProcessPoolExecutor(job.workers, mp_context=get_context("spawn")) as pool:
            rows = [row for found in pool.map(work, job.methods) for row in found]
    else:
        rows = [row for method in job.methods for row in work(method)]
    with (out / "scores.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["method", "rerun", "setting", *METRICS])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    values = json.loads(sys.argv[1])
    run(Job(**{**values, "methods": tuple(values["methods"])}), Path(sys.argv[2]))
