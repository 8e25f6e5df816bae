"""Measure how methods arrange the training images: "Revisiting Training Strategies", Figure 5.

    python tools/reality_check/structure.py RUNS/NAME --root DATASET results/studies/structure-NAME.json

RUNS/NAME is the whole folder of an experiment on a frozen trunk, with weights; an archive has none. Every
model of every rerun embeds the images that it was trained on; the file has each method's mean over searches,
reruns and folds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import fmean

import torch

from levelfield import metrics
from levelfield.compare import weigh
from levelfield.records import Store, write_text
from levelfield.registry import load_plugin_file
from levelfield.train import Resources, build_embedder, development, embed, inputs_of, load_trained_part
from levelfield.train.checkpoint import load_best_weights

MEASURES = ("pi_intra", "pi_inter", "pi_ratio", "rho")


def structure_of(run: Path, resources: Resources) -> dict[str, float]:
    """The measures of one trained head on its fold's training images."""
    folder = Store(run.parent.parent).run(run.name)
    spec = folder.spec()
    view = development(spec, resources)
    embedder = build_embedder(spec, resources)
    load_trained_part(embedder, load_best_weights(run), mode=spec.trunk.mode)
    embedder.eval()
    inputs, rows = inputs_of(view.dataset, spec, resources, train=True), view.folds[spec.fold].train
    embeddings = embed(embedder.project, inputs, rows, batch_size=spec.training.eval_batch_size)
    scores = metrics.evaluate(
        torch.nn.functional.normalize(embeddings),
        torch.from_numpy(view.dataset.labels[rows]),
        metrics=MEASURES,
    )
    return {name: float(scores[name]) for name in MEASURES}


def main() -> None:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what `levelfield run` wrote")
    parser.add_argument("file", type=Path, help="in results/studies, structure-NAME.json")
    parser.add_argument("--root", type=Path, help="of the dataset")
    parser.add_argument("--plugin", type=Path, action="append", default=[], help="a file of plug-ins")
    options = parser.parse_args()
    for plugin in options.plugin:
        load_plugin_file(plugin)
    evidence = weigh(options.folder)
    experiment = evidence.comparison.experiment
    if experiment.trunk.mode != "frozen":
        raise SystemExit(f"{options.folder} has no frozen trunk; choose an experiment that has one")
    resources = Resources(dataset_root=options.root, weights=experiment.trunk.weights)
    found = {}
    for method, confirmation in evidence.confirmations.items():
        runs = [run for rerun in confirmation.reruns.values() for run in rerun.runs]
        measured = [structure_of(options.folder / "runs" / run, resources) for run in runs]
        if measured:
            found[method] = {name: fmean(one[name] for one in measured) for name in MEASURES}
            print(method, len(measured), found[method], flush=True)
    options.file.parent.mkdir(parents=True, exist_ok=True)
    write_text(options.file, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
