"""``levelfield evaluate --rerank``: scores with and without re-ranking."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levelfield.metrics.files import EmbeddingFile
    from levelfield.retrieval.rerank import RerankingResult


def show_reranking(
    queries: EmbeddingFile,
    gallery: EmbeddingFile | None,
    development: EmbeddingFile,
    *,
    names: Sequence[str],
    metrics: Sequence[str] | None,
    seed: int,
    as_json: bool,
) -> None:
    """Compare re-ranking methods and print the result."""
    from levelfield.retrieval.rerank import compare_rerankers, retrieval_sets_from_files
    from levelfield.retrieval.rerank.comparison import METRICS

    searched, others = retrieval_sets_from_files(queries, gallery, development)
    results = compare_rerankers(
        searched,
        others,
        names=None if "all" in names else names,
        metrics=metrics or METRICS,
        seed=seed,
    )
    if as_json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        _print(results)


def _print(results: list[RerankingResult]) -> None:
    from rich.console import Console
    from rich.table import Table

    metric_names = list(results[0].scores)
    table = Table(
        "re-ranking", "parameters", "development gain", title="Gains over the plain ranking, 95% intervals"
    )
    for metric in metric_names:
        table.add_column(metric, justify="right")
    for result in results:
        cells = [result.name, " ".join(f"{key}={value:g}" for key, value in result.parameters.items())]
        cells.append("" if result.name == "none" else f"{result.development_gain:+.4f}")
        for metric in metric_names:
            score, gain = result.scores[metric], result.gains[metric]
            gain_text = f"\n{gain.value:+.4f} ({gain.low:+.4f} to {gain.high:+.4f})"
            cells.append(f"{score.value:.4f}" + ("" if result.name == "none" else gain_text))
        table.add_row(*cells)
    console = Console()
    console.print(table)
    console.print(
        "Parameters were chosen on the development data only; intervals are bootstrapped over classes."
    )
