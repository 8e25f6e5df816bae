"""Choose the optimizer settings of the preset ``laptop`` by validation scores, per kind of loss.

    python -m benchmarks.presets.choose_laptop --root FOLDER --out DIRECTORY [--dataset NAME] [--lr 3e-4 ...]

Trains heads that start from PCA on frozen features of CUB's training folds, at several learning rates, and
prints the best rate for losses that compare samples and for classification losses. ``--epochs 20`` trains for
20 epochs without early stopping, and prints the scores of shorter runs. See ``choosing.py``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.presets.choosing import measure, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="cub200")
    parser.add_argument("--root", help="directory of the dataset, if it has one")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lr", type=float, nargs="+", default=[3e-5, 1e-4, 3e-4, 1e-3, 3e-3])
    parser.add_argument("--optimizer", nargs="+", default=["adam"])
    parser.add_argument("--init", nargs="+", default=["pca"])
    parser.add_argument("--folds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--epochs", type=int, help="train for this many epochs, without early stopping")
    options = parser.parse_args()
    length = {"max_epochs": options.epochs, "patience": options.epochs} if options.epochs else {}
    settings = {
        f"{init} {name} {lr:g}": {
            "head": {"init": init},
            "optimizer": {"name": name, "lr": lr, "lr_classification": None},
            "training": length,
        }
        for init in options.init
        for name in options.optimizer
        for lr in options.lr
    }
    dataset = {"name": options.dataset} | ({"root": options.root} if options.root else {})
    scores = measure(settings, preset="laptop", dataset=dataset, out=options.out, folds=options.folds)
    report(scores, options.out)


if __name__ == "__main__":
    main()
