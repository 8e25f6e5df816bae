"""Choose the cut and the optimizer settings of the preset ``laptop-tail`` by validation scores.

    python -m benchmarks.presets.choose_laptop_tail --root CUB_200_2011 --out DIR [--cut C] [--lr L] ...

As ``choose_laptop.py``, with rates for the tail and for the head, and two methods of each kind of loss:
pairs, weighted pairs, class weights with a margin, proxies. See ``choosing.py``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.presets.choosing import measure, report

METHODS = {
    "embedding": ("contrastive", "multi_similarity"),
    "classification": ("arcface", "proxy_anchor"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="cub200")
    parser.add_argument("--root", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cut", nargs="+", default=["blocks.6"])
    parser.add_argument("--lr", type=float, nargs="+", default=[3e-5, 1e-4, 3e-4])
    parser.add_argument("--head-lr", type=float, nargs="+", default=[1e-4, 1e-3])
    parser.add_argument("--schedule", nargs="+", default=["constant", "cosine"])
    parser.add_argument("--methods", nargs="+", help="only these methods")
    parser.add_argument("--loss-lr", type=float, nargs="+", default=[1e-2, 1e-1])
    parser.add_argument("--folds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, help="train for this many epochs, without early stopping")
    options = parser.parse_args()
    length = {"max_epochs": options.epochs, "patience": options.epochs} if options.epochs else {}
    settings = {
        f"{cut} tail {lr:g} head {head_lr:g} {schedule}": {
            "trunk": {"from": cut},
            "optimizer": {
                "lr": lr,
                "head_lr": head_lr,
                "lr_classification": None,
                "head_lr_classification": None,
            },
            "schedule": {"name": schedule},
            "training": length,
        }
        for cut in options.cut
        for lr in options.lr
        for head_lr in options.head_lr
        for schedule in options.schedule
    }
    wanted = options.methods or [method for methods in METHODS.values() for method in methods]
    methods = {kind: [name for name in names if name in wanted] for kind, names in METHODS.items()}
    scores = measure(
        settings,
        preset="laptop-tail",
        dataset={"name": options.dataset, "root": options.root},
        out=options.out,
        folds=options.folds,
        methods={kind: names for kind, names in methods.items() if names},
        loss_rates=options.loss_lr,
    )
    report(scores, options.out)


if __name__ == "__main__":
    main()
