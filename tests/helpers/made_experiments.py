"""Experiment directories as ``levelfield run`` writes them, made from numbers without training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from levelfield.config import Experiment
from levelfield.core.files import append_line, write_json
from levelfield.records import Selection, Store, digest

SETTINGS = ("separated", "concatenated")
METRICS = ("precision_at_1", "r_precision", "map_at_r")
LABELS = {"precision_at_1": "P@1", "r_precision": "RP", "map_at_r": "MAP@R", "nmi": "NMI"}
METRIC_INFOS = {
    name: {"name": name, "label": label, "unit": "percent", "higher_is_better": True}
    for name, label in LABELS.items()
}
Writer = Callable[..., Path]


@pytest.fixture
def write_experiment(tmp_path: Path) -> Writer:
    """See :func:`written`; each call makes its own directory."""

    def write(name: str = "made", **options: Any) -> Path:
        return written(tmp_path / name, name=name, **options)

    return write


def written(
    root: Path,
    *,
    name: str = "made",
    means: Mapping[str, float] | None = None,
    dataset: str = "glyphs",
    trunk: Mapping[str, Any] | None = None,
    baseline: str = "untrained",
    reruns: int = 3,
    repeats: int = 1,
    rerun_noise: float = 0.001,
    search_noise: float = 0.003,
    query_noise: float = 0.05,
    queries: int = 400,
    trials: int = 12,
    metrics: tuple[str, ...] = METRICS,
    values: Mapping[str, Any] | None = None,
    leaky: bool = False,
    metric_infos: Sequence[Mapping[str, Any]] | None = None,
    epochs: Mapping[str, Sequence[int]] | None = None,
) -> Path:
    """Write a finished experiment whose methods score ``means`` up to noise; the same seeds every time.

    NMI, if among ``metrics``, has no values per query, as in real records.
    """
    means = {"contrastive": 0.50, "triplet": 0.50, "arcface": 0.40, baseline: 0.1} if means is None else means
    experiment = Experiment.build(
        name=name,
        dataset={"name": dataset},
        trunk={"name": "conv4", **(trunk or {})},
        methods=[method for method in means if method != baseline],
        metrics=list(metrics),
        search={"trials": trials, "repeats": repeats},
        confirm={"reruns": reruns},
        **(values or {}),
    ).model_dump(mode="json", exclude={"engine": True, "plugins": True, "dataset": {"root"}})
    generator = np.random.default_rng(7)
    hard = generator.uniform(-0.1, 0.1, size=queries)
    selections: dict[str, list[str]] = {}
    searches: dict[str, list[str]] = {}
    for method, mean in means.items():
        for repeat in range(1 if method == baseline else repeats):
            name = digest({"search": method, "repeat": repeat} if repeat else {"search": method})
            if method != baseline:
                searches.setdefault(method, []).append(name)
            selection = _select(root, name, method, 0 if method == baseline else trials, generator)
            selections.setdefault(method, []).append(Store(root).freeze(selection).stem)
            directory = root / "confirmations" / selection.selection_id
            luck = search_noise * generator.normal() if repeats > 1 else 0.0
            for rerun in range(1 if method == "pretrained" else reruns):
                shift = mean + luck + rerun_noise * generator.normal()
                noise = query_noise * generator.normal(size=(2, queries))
                _write_rerun(
                    directory / f"rerun-{rerun:02d}",
                    shift + hard + noise,
                    metrics,
                    epochs=[] if method == baseline else (epochs or {}).get(method, (10, 12, 8, 10)),
                )
    index = {
        "measures": list(metric_infos or [METRIC_INFOS[metric] for metric in metrics]),
        "experiment": experiment,
        "split": "class_disjoint, 4 folds",
        "leaky": leaky,
        "baseline": baseline,
        "searches": searches,
        "selections": selections,
    }
    write_json(root / "experiment.json", index)
    append_line(root / "revisions.jsonl", {"time": "2026-01-01", "experiment": experiment})
    return root


def _write_rerun(stem: Path, values: np.ndarray, metrics: tuple[str, ...], *, epochs: Sequence[int]) -> None:
    scores: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for setting, together in zip(SETTINGS, values, strict=True):
        row = together - (0.05 if setting == "separated" else 0.0)
        scores[setting] = {metric: float(row.mean()) for metric in metrics}
        per_query = {f"{setting}.{metric}": row.astype(np.float32) for metric in metrics if metric != "nmi"}
        arrays |= per_query
    spectrum = np.exp(-np.arange(32) / (4 + 10 * values.mean()))
    arrays["spectrum"] = (spectrum / spectrum.sum()).astype(np.float32)
    write_json(
        stem.with_suffix(".json"),
        {**scores, "folds": [scores["separated"]] * 4, "best_epochs": list(epochs)},
    )
    save_file(arrays, stem.with_suffix(".safetensors"))


def _select(root: Path, search: str, method: str, trials: int, generator: np.random.Generator) -> Selection:
    """Write a search of so many trials and return its selection."""
    scored = _write_search(root, search, method, trials, generator)
    best = max(scored, key=lambda trial: trial["score"], default=None)
    if best is None:
        return Selection(method=method)
    return Selection(
        method=method,
        trial=best["number"],
        hyperparameters=best["hyperparameters"],
        score=best["score"],
    )


def _write_search(
    root: Path, search: str, method: str, trials: int, generator: np.random.Generator
) -> list[dict[str, Any]]:
    """Trials of two hyperparameters; only the first matters. One of them diverges."""
    found = []
    for number in range(trials):
        margin, other = float(generator.uniform(0, 1)), float(10 ** generator.uniform(-6, 0))
        trial = {
            "number": number,
            "hyperparameters": {"weight": margin, "rate": other},
            "runs": [],
            "fold_scores": [],
            "score": 0.5 - (margin - 0.3) ** 2,
            "reason": "",
        }
        if number == 3:
            trial |= {"score": None, "reason": "fold 0: the loss is NaN"}
        else:
            found.append(trial)
        write_json(root / "searches" / search / f"trial-{number:04d}.json", trial)
    return found
