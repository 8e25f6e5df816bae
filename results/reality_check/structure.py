"""Measure the structure of the training embeddings: "Revisiting Training Strategies", Figure 5.

    python results/reality_check/structure.py RUNS/NAME --root DATASET results/studies/structure-NAME.json

RUNS/NAME is the experiment directory of an experiment on a frozen trunk, with weights (an archive has none).
Every model of every rerun embeds the images that it was trained on. The file has each method's mean over
searches, reruns and folds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import fmean

import torch

from levelfield import metrics
from levelfield.analysis import analyze
from levelfield.core.registry import load_plugin_file
from levelfield.records import Store, write_text
from levelfield.train import (
    Resources,
    build_embedder,
    create_inputs,
    embed,
    load_development_view,
    load_trained_state_dict,
)
from levelfield.train.checkpoint import load_best_weights

METRICS = ("pi_intra", "pi_inter", "pi_ratio", "rho")


def structure_of(run: Path, resources: Resources) -> dict[str, float]:
    """Return the structure metrics of one trained head on its fold's training images."""
    spec = Store(run.parent.parent).run(run.name).spec()
    view = load_development_view(spec, resources)
    embedder = build_embedder(spec, resources)
    load_trained_state_dict(embedder, load_best_weights(run), mode=spec.trunk.mode)
    embedder.eval()
    inputs, rows = create_inputs(view.dataset, spec, resources, train=True), view.folds[spec.fold].train
    embeddings = embed(embedder.project, inputs, rows, batch_size=spec.training.eval_batch_size)
    scores = metrics.evaluate(
        torch.nn.functional.normalize(embeddings),
        torch.from_numpy(view.dataset.labels[rows]),
        metrics=METRICS,
    )
    return {name: float(scores[name]) for name in METRICS}


def main() -> None:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="experiment directory")
    parser.add_argument("file", type=Path, help="output file, results/studies/structure-NAME.json")
    parser.add_argument("--root", type=Path, help="root of the dataset")
    parser.add_argument("--plugin", type=Path, action="append", default=[], help="plug-in file")
    options = parser.parse_args()
    for plugin in options.plugin:
        load_plugin_file(plugin)
    analysis = analyze(options.directory)
    experiment = analysis.comparison.experiment
    if experiment.trunk.mode != "frozen":
        raise SystemExit(
            f"{options.directory} does not have a frozen trunk; choose an experiment that has one"
        )
    resources = Resources(dataset_root=options.root, weights=experiment.trunk.weights)
    found = {}
    for method, confirmation in analysis.confirmations.items():
        runs = [run for rerun in confirmation.reruns.values() for run in rerun.runs]
        measured = [structure_of(options.directory / "runs" / run, resources) for run in runs]
        if measured:
            found[method] = {name: fmean(one[name] for one in measured) for name in METRICS}
            print(method, len(measured), found[method], flush=True)
    options.file.parent.mkdir(parents=True, exist_ok=True)
    write_text(options.file, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
