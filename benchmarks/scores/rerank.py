"""Gain of re-ranking on CUB-200-2011 and on Glyphs.

    python -m benchmarks.scores.rerank rerank [--cub DIRECTORY] [--work DIRECTORY] [--names aqe,dba]
    python -m benchmarks.scores.rerank alone [--cub DIRECTORY] [--work DIRECTORY] [--every 8]

``rerank`` tunes re-ranking on classes 1-100 of CUB and scores classes 101-200; it does the same with
classes of Glyphs that the network was not trained on. ``alone`` re-ranks one query at a time with
k-reciprocal re-ranking, as a search box does, for some of the queries. With ``--cub`` the data is CUB, whose
features stay in the feature cache; otherwise it is Glyphs, whose network stays in ``--work`` (default: a
temporary directory).
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from benchmarks.scores.cub_features import cub_features
from levelfield.data import load
from levelfield.retrieval.embedders import Architecture, build_network
from levelfield.retrieval.rerank import RERANKERS, RerankingResult, RetrievalSet, compare_rerankers


def cub_sets(cub: Path) -> tuple[str, RetrievalSet, RetrievalSet]:
    """Return the title, the scored set and the set that parameters are tuned on, of CUB."""
    (known, known_labels), (new, new_labels) = (cub_features(cub, test=test) for test in (False, True))
    vectors, labels = torch.cat([known, new]), torch.cat([known_labels, new_labels])
    is_new = torch.arange(len(labels)) >= len(known)
    return "CUB, classes 101-200, tuned on 1-100", *halves(vectors, labels, ~is_new, is_new)


def glyphs_sets(work: Path) -> tuple[str, RetrievalSet, RetrievalSet]:
    """Return the title and the two sets of Glyphs."""
    embeddings, labels = glyphs(work)
    # The network was trained on the first half of the classes, where every ranking is perfect.
    unseen = labels > int(labels.max()) // 2
    odd = labels % 2 == 1
    title = "Glyphs, classes that the network never saw: odd ones, tuned on even ones"
    return title, *halves(embeddings, labels, unseen & ~odd, unseen & odd)


def halves(
    vectors: torch.Tensor, labels: torch.Tensor, development: torch.Tensor, test: torch.Tensor
) -> tuple[RetrievalSet, RetrievalSet]:
    """Return the scored set (every other test image is a query, the rest the gallery) and the tuning set."""
    rows = test.nonzero()[:, 0]
    queries, gallery = rows[::2], rows[1::2]
    scored = RetrievalSet(vectors[queries], labels[queries], vectors[gallery], labels[gallery])
    return scored, RetrievalSet(vectors[development], labels[development])


def alone(title: str, scored: RetrievalSet, development: RetrievalSet, *, every: int) -> None:
    """Compare some queries plain, re-ranked together with all others, and re-ranked one by one."""
    some = RetrievalSet(
        scored.queries[::every], scored.labels[::every], scored.gallery, scored.gallery_labels
    )
    together = RERANKERS["k_reciprocal"]

    def with_all(few: RetrievalSet, count: int, fitted_to: torch.Tensor, **setting: Any) -> torch.Tensor:
        if few.excludes_self:  # the development data, which parameters are tuned on
            return together.rank(few, count, fitted_to, **setting)
        asked = F.normalize(scored.queries, dim=1)
        whole = RetrievalSet(asked, scored.labels, few.gallery, few.gallery_labels)
        return together.rank(whole, count, fitted_to, **setting)[::every]

    def one_by_one(few: RetrievalSet, count: int, fitted_to: torch.Tensor, **setting: Any) -> torch.Tensor:
        if few.excludes_self:
            return together.rank(few, count, fitted_to, **setting)
        single = (
            RetrievalSet(
                few.queries[row : row + 1], few.labels[row : row + 1], few.gallery, few.gallery_labels
            )
            for row in range(len(few.queries))
        )
        return torch.cat([together.rank(one, count, fitted_to, **setting) for one in single])

    RERANKERS["k_reciprocal, all together"] = replace(together, rank=with_all)
    RERANKERS["k_reciprocal, one by one"] = replace(together, rank=one_by_one)
    names = ["k_reciprocal, all together", "k_reciprocal, one by one"]
    show(title, some, compare_rerankers(some, development, names=names))


def show(title: str, scored: RetrievalSet, effects: list[RerankingResult]) -> None:
    print(title, f"({len(scored.queries)} queries, {len(scored.candidates)} in the gallery)")
    print(
        "| re-ranking | parameters | gain in development | mAP@100 | MAP@R | P@1 |\n|---|---|---|---|---|---|"
    )
    for effect in effects:
        cells = [effect.name, " ".join(f"{k}={v:g}" for k, v in effect.parameters.items())]
        cells.append("" if effect.name == "none" else f"{100 * effect.development_gain:+.2f}")
        for metric in ("map_at_100", "map_at_r", "precision_at_1"):
            score, gain = effect.scores[metric], effect.gains[metric]
            text = f"{100 * score.value:.2f}"
            if effect.name != "none":
                text += f" ({100 * gain.value:+.2f}, {100 * gain.low:+.2f} to {100 * gain.high:+.2f})"
            cells.append(text)
        print("| " + " | ".join(cells) + " |", flush=True)


def glyphs(work: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Return embeddings of Glyphs by a conv4 trained for a minute on half of the classes, and labels."""
    file = work / "glyphs.pt"
    dataset = load("glyphs")
    labels = torch.from_numpy(dataset.labels)
    if not file.exists():
        torch.manual_seed(0)
        half = labels <= int(labels.max()) // 2
        rows = half.nonzero()[:, 0]
        images = torch.stack([dataset.images.read(row) for row in range(len(dataset))])
        network = build_network(Architecture(trunk="conv4", in_channels=images.shape[1], size=64)).train()
        classifier = torch.nn.Linear(64, int(labels.max()) + 1)
        optimizer = torch.optim.Adam([*network.parameters(), *classifier.parameters()], lr=2e-3)
        for _ in range(600):
            batch = rows[torch.randint(len(rows), (64,))]
            loss = F.cross_entropy(10 * classifier(network(images[batch])), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.inference_mode():
            network.eval()
            found = [network(images[start : start + 256]) for start in range(0, len(images), 256)]
            torch.save(torch.cat(found), file)
    return torch.load(file, weights_only=True), labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("rerank", "alone"))
    parser.add_argument("--cub", type=Path)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--names", default=",".join(RERANKERS), help="re-ranking methods to compare")
    parser.add_argument("--every", type=int, default=8, help="`alone` asks every so many queries")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        sets = glyphs_sets(work) if given.cub is None else cub_sets(given.cub)
        if given.what == "rerank":
            title, scored, development = sets
            show(title, scored, compare_rerankers(scored, development, names=given.names.split(",")))
        else:
            alone(*sets, every=given.every)


if __name__ == "__main__":
    main()
