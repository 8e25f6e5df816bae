"""Structure of training embeddings against test scores: "Revisiting Training Strategies", section 5.

Every model of every rerun embeds the images that it was trained on. The study compares rho and the pi metrics
of these embeddings with the model's test score, over methods: Figure 5 of the paper. The spectra of all
training embeddings and those within classes are its Figures 8 and 10.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

from levelfield import metrics
from levelfield.analysis import Analysis, analyze
from levelfield.core.errors import UsageError
from levelfield.core.registry import load_plugin_file
from levelfield.records import Store, write_json, write_text
from levelfield.reports import Table
from levelfield.reports.figures.charts import Axis, Panel, PanelChart, Trace
from levelfield.reports.figures.files import write_chart
from levelfield.train import (
    Resources,
    build_embedder,
    create_inputs,
    embed,
    load_development_view,
    load_trained_state_dict,
)
from levelfield.train.checkpoint import has_weights, load_best_weights

METRICS = ("rho", "rho_class", "pi_intra", "pi_inter", "pi_ratio")
Array = NDArray[np.float64]


@dataclass(frozen=True)
class MethodStructure:
    """Structure of one method's training embeddings, and its test score.

    Attributes:
        method: Name of the method.
        models: Number of models: searches x reruns x folds.
        score: Mean test score.
        metrics: Mean of each structure metric; it may be infinite.
        spectrum: Mean singular values of all training embeddings, as shares of their sum.
        class_spectrum: The same of single classes, mean over classes.
    """

    method: str
    models: int
    score: float
    metrics: dict[str, float]
    spectrum: Array
    class_spectrum: Array


def run_study(
    root: Path,
    out: Path,
    *,
    metric: str | None = None,
    dataset_root: Path | None = None,
    weights: str | None = None,
    plugins: tuple[Path, ...] = (),
    advance: Callable[[str], None] = lambda text: None,
) -> list[MethodStructure]:
    """Measure all models of an experiment; write ``structure.md``, ``.json`` and figures into ``out``.

    Args:
        root: Directory of a finished experiment, with the weights of its runs (an archive has none).
        out: Output directory.
        metric: Test metric. Defaults to the selection metric.
        dataset_root: Root of the dataset, if its card does not know it.
        weights: Weights of the trunk, if they are a local file.
        plugins: Plug-in files of the experiment.
        advance: Called with a text before each method.
    """
    for plugin in plugins:
        load_plugin_file(plugin)
    analysis = analyze(root, metric=metric)
    experiment = analysis.comparison.experiment
    resources = Resources(dataset_root=dataset_root, weights=weights or experiment.trunk.weights)
    found = []
    for method, confirmation in analysis.confirmations.items():
        runs = [Path(root, "runs", run) for rerun in confirmation.reruns.values() for run in rerun.runs]
        if not runs:
            continue  # the baseline was not trained
        advance(method)
        if missing := [run.name for run in runs if not has_weights(run)]:
            raise UsageError(
                f"run {missing[0]} of {method} has no weights; give the directory in which it was trained"
            )
        found.append(_measure(method, analysis.means.get(method, math.nan), runs, resources))
    if not found:
        raise UsageError(f"{root} has no trained models with test scores; finish the experiment first")
    write_json(out / "structure.json", [_as_record(each) for each in found])
    write_text(out / "structure.md", as_markdown(found, analysis))
    for name, chart in _charts(found, analysis).items():
        write_chart(chart, out, name)
    return found


def _measure(method: str, score: float, runs: list[Path], resources: Resources) -> MethodStructure:
    models = [_measure_run(run, resources) for run in runs]
    return MethodStructure(
        method=method,
        models=len(models),
        score=score,
        metrics={name: fmean(scores[name] for scores, _, _ in models) for name in METRICS},
        spectrum=_mean([spectrum for _, spectrum, _ in models]),
        class_spectrum=_mean([spectrum for _, _, spectrum in models]),
    )


def _measure_run(run: Path, resources: Resources) -> tuple[dict[str, float], Array, Array]:
    """Return structure metrics and spectra of one model on the images that it was trained on."""
    spec = Store(run.parent.parent).run(run.name).spec()
    view = load_development_view(spec, resources)
    embedder = build_embedder(spec, resources)
    load_trained_state_dict(embedder, load_best_weights(run), mode=spec.trunk.mode)
    embedder.to(resources.device).eval()
    inputs, rows = create_inputs(view.dataset, spec, resources, train=True), view.folds[spec.fold].train
    forward: Callable[[Tensor], Tensor] = embedder.project if spec.trunk.mode == "frozen" else embedder
    size = spec.training.eval_batch_size
    embeddings = embed(forward, inputs, rows, batch_size=size, device=resources.device)
    embeddings = torch.nn.functional.normalize(embeddings).cpu()
    labels = torch.from_numpy(view.dataset.labels[rows])
    scores = metrics.evaluate(embeddings, labels, metrics=METRICS)
    single = [metrics.spectrum(embeddings[labels == label]) for label in np.unique(labels.numpy()).tolist()]
    return {name: float(scores[name]) for name in METRICS}, metrics.spectrum(embeddings), _mean(single)


def _mean(spectra: list[Array]) -> Array:
    """Return the mean of spectra, as long as the longest; shorter ones end with zeros."""
    length = max(len(values) for values in spectra)
    padded = [np.pad(values, (0, length - len(values))) for values in spectra]
    mean: Array = np.mean(padded, axis=0)
    return mean


def correlations(found: list[MethodStructure]) -> dict[str, float]:
    """Return the rank correlation of each structure metric with the test score; NaN if it is unknown.

    Methods with an infinite metric are left out.
    """
    result = {}
    for name in METRICS:
        points = [(m.metrics[name], m.score) for m in found if math.isfinite(m.metrics[name] + m.score)]
        varied = len(points) > 2 and all(len(set(column)) > 1 for column in zip(*points, strict=True))
        ranks = [rankdata(column) for column in zip(*points, strict=True)]
        result[name] = float(np.corrcoef(ranks)[0, 1]) if varied else math.nan
    return result


def as_markdown(found: list[MethodStructure], analysis: Analysis) -> str:
    """Return the tables of the study."""
    info = analysis.metric_info
    ordered = sorted(found, key=lambda each: -info.sign * each.score)
    rows: list[list[str | int]] = [
        [each.method, each.models, info.shown(each.score), *(f"{each.metrics[name]:.3f}" for name in METRICS)]
        for each in ordered
    ]
    known = ["-" if math.isnan(value) else f"{value:+.2f}" for value in correlations(found).values()]
    rows.append(["rank correlation", "", "", *known])
    table = Table.from_rows(["method", "models", f"test {info.label}", *METRICS], rows)
    experiment = analysis.comparison.experiment
    return (
        f"# Structure of the training embeddings: {experiment.name}\n\n"
        f"{experiment.dataset.name}, trunk {experiment.trunk.mode}. Means over the models of all reruns, "
        "each on the images that it was trained on. The last row is Spearman's correlation with the test "
        "score over methods. Low rho means that many directions are used.\n\n"
        f"{table.markdown()}\n"
    )


def _charts(found: list[MethodStructure], analysis: Analysis) -> dict[str, PanelChart]:
    info = analysis.metric_info
    panels = [
        Panel(
            Axis(name),
            tuple(
                Trace(each.method, (each.metrics[name],), (info.scale * each.score,), color=color)
                for color, each in enumerate(found)
                if math.isfinite(each.metrics[name])
            ),
        )
        for name in METRICS
        if any(math.isfinite(each.metrics[name]) for each in found)
    ]
    title = f"Structure of the training embeddings against test {info.axis}, a point per method"
    return {
        "structure-scores": PanelChart(title, Axis(info.axis), tuple(panels)),
        "structure-spectra": PanelChart(
            "Spectra of the training embeddings, mean over models",
            Axis("share of the sum", log=True),
            (
                Panel(Axis("singular value, all classes", integer_ticks=True), _lines(found, "spectrum")),
                Panel(Axis("singular value, one class", integer_ticks=True), _lines(found, "class_spectrum")),
            ),
        ),
    }


def _lines(found: list[MethodStructure], field: str) -> tuple[Trace, ...]:
    traces = []
    for color, each in enumerate(found):
        values = getattr(each, field)
        kept = values[values > 1e-7].tolist()  # the rest is rounding
        x = tuple(float(number) for number in range(1, len(kept) + 1))
        traces.append(Trace(each.method, x, tuple(kept), "line", color))
    return tuple(traces)


def _as_record(each: MethodStructure) -> dict[str, object]:
    """Return a JSON record; infinity is null there."""
    values = {name: value if math.isfinite(value) else None for name, value in each.metrics.items()}
    return {
        "method": each.method,
        "models": each.models,
        "score": each.score,
        "metrics": values,
        "spectrum": each.spectrum.tolist(),
        "class_spectrum": each.class_spectrum.tolist(),
    }
