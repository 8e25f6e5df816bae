"""Promise and observation of the match threshold, on classes that nothing was trained or calibrated on.

    python -m benchmarks.scores.thresholds [--cub DIRECTORY] [--work DIRECTORY] [--reruns 4]

Small experiments are run on Glyphs and, with ``--cub``, on CUB-200-2011 (linear heads on frozen features).
The models are exported as a user does it, and their cards promise a false-accept rate and a share of matches.
Both are then observed with images of the test classes. The test classes are split at random into groups of as
many classes as one fold has for validation, because false accepts depend on the size of the index. Each image
searches in its group: among other classes for false accepts, in its own for matches. Values are means over
``SPLITS`` splits, intervals are from a bootstrap over classes. "all" is the index of all test classes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import levelfield as lf
from benchmarks.scores.cub_features import cub_features
from levelfield.api import export
from levelfield.data.views import open_dataset, split_dataset
from levelfield.records import Store
from levelfield.retrieval.embedders.threshold import best_similarities

SPLITS, RESAMPLES = 40, 2000
RATES = (0.05, 0.01)
METHODS = {"glyphs": ("contrastive", "normalized_softmax"), "cub": ("contrastive", "multi_similarity")}


@dataclass(frozen=True)
class Share:
    """Mean over images with its 95% interval over classes."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.value:.1f} ({100 * self.low:.1f} to {100 * self.high:.1f})"


@dataclass(frozen=True)
class Observation:
    """Observed shares of one threshold, and the matches that a threshold with exactly this rate finds."""

    false_accepts: Share
    matches: Share
    false_accepts_of_all: Share
    matches_at_the_rate: float


def experiments(work: Path, cub: Path | None, reruns: int) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Yield the name, directory and dataset options of each finished experiment; finished runs are reused."""
    common = {
        "search": {"trials": 2},
        "confirm": {"reruns": reruns},
        "engine": {"workers": 1, "threads": 1},
    }
    options: dict[str, dict[str, Any]] = {"glyphs": {}}
    if cub is not None:
        options["cub"] = {"root": str(cub)}
    for name, given in options.items():
        values: dict[str, Any] = {
            "name": name,
            "preset": "demo" if name == "glyphs" else "laptop",
            **common,
        }
        values["methods"] = list(METHODS[name])
        if given:
            values["dataset"] = {"name": "cub200", **given}
        lf.run(lf.Experiment.build(**values), work / name)
        yield name, work / name, given


def embed_test(directory: Path, model: Path, options: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the vectors of the exported model on the test images, and the classes."""
    embedder = lf.load_embedder(model)
    if options:  # CUB, whose trunk is frozen: its features are in the cache
        features, labels = cub_features(Path(options["root"]), test=True)
        with torch.inference_mode():
            parts = [torch.nn.functional.normalize(part.project(features), dim=1) for part in embedder.parts]
        return torch.nn.functional.normalize(torch.cat(parts, dim=1), dim=1), labels
    experiment: Any = Store(directory).experiment_record().experiment
    dataset = open_dataset(experiment.dataset.name, options)
    plan = split_dataset(dataset, experiment.split.name, experiment.split.options)
    vectors = embedder.embed([dataset.images.read(int(row)) for row in plan.test])
    return vectors, torch.from_numpy(dataset.labels[plan.test])


def observe(
    vectors: torch.Tensor, labels: torch.Tensor, threshold: float, *, rate: float, classes: int
) -> Observation:
    """Return the shares of accepted images of the test classes, in groups of ``classes`` classes."""
    generator = torch.Generator().manual_seed(0)
    every, number = torch.unique(labels, return_inverse=True)
    groups_of = max(1, len(every) // classes)
    false, true = torch.zeros(len(labels)), torch.zeros(len(labels))
    impostors, matches = [], []
    for _ in range(SPLITS):
        group = torch.randperm(len(every), generator=generator) % groups_of
        best = best_similarities(vectors, labels, group[number])
        false += best.impostor >= threshold
        true += best.match >= threshold
        impostors.append(best.impostor)
        matches.append(best.match)
    ranked = torch.cat(impostors).sort(descending=True).values
    exact = ranked[int(rate * len(ranked))]
    whole = best_similarities(vectors, labels, torch.zeros_like(labels))
    return Observation(
        estimate(false / SPLITS, number),
        estimate(true / SPLITS, number),
        estimate((whole.impostor >= threshold).float(), number),
        float((torch.cat(matches) > exact).float().mean()),
    )


def estimate(values: torch.Tensor, number: torch.Tensor) -> Share:
    """Return the mean and its interval from a bootstrap over classes."""
    sums, sizes = (np.bincount(number.numpy(), weights) for weights in (values.numpy(), None))
    count = len(sizes)
    picks = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    low, high = np.quantile(picks @ sums / (picks @ sizes), [0.025, 0.975])
    return Share(float(values.mean()), float(low), float(high))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cub", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--reruns", type=int, default=4)
    given = parser.parse_args()
    print("in percent; intervals of 95% over classes\n")
    heads = ["model", "promised false accepts", "observed", "of all classes", "promised matches", "observed"]
    print("| " + " | ".join([*heads, "matches at exactly this rate"]) + " |\n" + "|---" * 7 + "|", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        for name, directory, options in experiments(work, given.cub, given.reruns):
            for method in METHODS[name]:
                for fold in (None, 0):
                    model = work / f"model-{name}-{method}-{fold}"
                    rows(name, directory, options, method=method, fold=fold, model=model)


def rows(
    name: str, directory: Path, options: dict[str, Any], *, method: str, fold: int | None, model: Path
) -> None:
    """Print the rows of one exported model."""
    embedded: tuple[torch.Tensor, torch.Tensor] | None = None
    for rate in RATES:
        root = Path(options["root"]) if options else None
        card = export(directory, model, method=method, fold=fold, false_accept_rate=rate, root=root)
        title = f"{name}, {method}, {'all folds' if fold is None else f'fold {fold}'}"
        if card.threshold is None:
            print(f"| {title} | {rate:.0%} | no threshold | | | | |", flush=True)
            continue
        embedded = embedded or embed_test(directory, model, options)
        per_class = len(embedded[1]) / len(torch.unique(embedded[1]))
        seen = observe(
            *embedded,
            card.threshold.similarity,
            rate=rate,
            classes=max(2, round(card.threshold.gallery / per_class)),
        )
        cells = [title, f"{100 * rate:g}", seen.false_accepts, seen.false_accepts_of_all]
        cells += [f"{100 * card.threshold.true_accept_rate:.1f}", seen.matches]
        print(
            "| " + " | ".join(map(str, [*cells, f"{100 * seen.matches_at_the_rate:.1f}"])) + " |", flush=True
        )


if __name__ == "__main__":
    main()
