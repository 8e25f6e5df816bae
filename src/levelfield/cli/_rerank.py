"""``levelfield evaluate --rerank``: the same embeddings, ranked better or worse."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from levelfield.metrics.files import EmbeddingFile
    from levelfield.rerank import Effect


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
    """Compare and print."""
    from levelfield.rerank import compare_rerankers, pictures_of
    from levelfield.rerank.comparison import METRICS

    searched, others = pictures_of(queries, gallery, development)
    effects = compare_rerankers(
        searched,
        others,
        names=None if "all" in names else names,
        metrics=metrics or METRICS,
        seed=seed,
    )
    if as_json:
        print(json.dumps([asdict(effect) for effect in effects], indent=2))
    else:
        _print(effects)


def _print(effects: list[Effect]) -> None:
    from rich.console import Console
    from rich.table import Table

    measures = list(effects[0].scores)
    table = Table(
        "re-ranking", "parameters", "gain in development", title="gains over the plain ranking, 95%"
    )
    for measure in measures:
        table.add_column(measure, justify="right")
    for effect in effects:
        cells = [effect.name, " ".join(f"{key}={value:g}" for key, value in effect.parameters.items())]
        cells.append("" if effect.name == "none" else f"{effect.development_gain:+.4f}")
        for measure in measures:
            score, gain = effect.scores[measure], effect.gains[measure]
            between = f"\n{gain.value:+.4f} ({gain.low:+.4f} to {gain.high:+.4f})"
            cells.append(f"{score.value:.4f}" + ("" if effect.name == "none" else between))
        table.add_row(*cells)
    console = Console()
    console.print(table)
    console.print("Parameters were chosen on the development data alone; intervals draw classes anew.")
