"""Gain of each head initialization: validation MAP@R by ``head.init``, for several losses.

    python -m benchmarks.presets.head_init --root CUB_200_2011 --out DIRECTORY [--seeds 2]
    python -m benchmarks.presets.head_init --preset demo --dataset glyphs --out DIRECTORY

Runs the preset ``laptop`` on CUB (heads on frozen features) or the demo's small network (trained as a
whole), with four folds, several seeds and the papers' hyperparameters. Classification losses take the
better of two rates of their class weights, as in ``choosing.py``. Prints the means before and after
training, and the gain over the random initialization with its 95% t-interval over folds and seeds. The
test set stays closed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import fmean

from benchmarks.presets.choosing import LOSS_RATES, METHODS, run_scores
from levelfield.stats import t_interval

INITS = ("random", "orthogonal", "pca", "whitening")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", default="cub200")
    parser.add_argument("--preset", default="laptop")
    parser.add_argument("--root", help="root of the dataset; not needed for built-in ones")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--folds", type=int, nargs="+", default=[0, 1, 2, 3])
    options = parser.parse_args()
    dataset = {"name": options.dataset} | ({"root": options.root} if options.root else {})
    print(f"| loss | {' | '.join(f'{init}: before, after' for init in INITS)} |")
    print("|---|" + "---|" * len(INITS))
    kept = {}
    for kind, methods in METHODS.items():
        for method in methods:
            cells = []
            for init in INITS:
                scores = max(
                    (
                        run_scores(
                            {"head": {"init": init}},
                            method,
                            rate,
                            preset=options.preset,
                            dataset=dataset,
                            out=options.out,
                            folds=options.folds,
                            seeds=range(options.seeds),
                        )
                        for rate in (LOSS_RATES if kind == "classification" else (None,))
                    ),
                    key=lambda found: sum(found.best),
                )
                before, after = fmean(scores.first), fmean(scores.best)
                cell = f"{100 * before:.1f}, {100 * after:.1f}"
                if init == INITS[0]:
                    random = scores.best
                else:  # compare the same fold and seed: folds differ more than initializations
                    gain = t_interval([one - other for one, other in zip(scores.best, random, strict=True)])
                    cell += f" ({100 * gain.mean:+.1f} ± {100 * gain.half_width:.1f})"
                cells.append(cell)
                kept[f"{method} {init}"] = vars(scores)
            print(f"| {method} | {' | '.join(cells)} |", flush=True)
    (options.out / "head_init.json").write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
