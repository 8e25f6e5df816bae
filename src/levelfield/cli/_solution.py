"""``levelfield evaluate --solution``: the official scores of submissions to the landmark challenge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np


def show_submissions(files: Sequence[Path], solution: Path, *, as_json: bool) -> None:
    """Print the scores of each submission, and the verdicts on several submissions to the retrieval track."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from levelfield.analysis import ModelScores, compare_models
    from levelfield.core.errors import printable
    from levelfield.metrics.landmarks import RETRIEVAL_METRIC, read_solution, score_submission

    known = read_solution(solution)
    found = {str(file): score_submission(file, known) for file in files}
    values = {name: own.per_query for name, own in found.items() if own.per_query is not None}
    compared = None
    if len(values) > 1:
        # queries with the same relevant images show the same landmark, so they are not independent
        groups = np.unique([" ".join(sorted(each)) for each in known.queries.values()], return_inverse=True)[
            1
        ]
        models = {name: ModelScores({RETRIEVAL_METRIC: own[None]}) for name, own in values.items()}
        compared = compare_models(models, classes=groups)
    if as_json:
        facts = {
            name: {"metric": own.metric, "scores": dict(own.scores), "queries": len(known.queries)}
            for name, own in found.items()
        }
        verdict = None if compared is None else compared.conclusion.text
        pairs = [] if compared is None else [pair.as_dict() for pair in compared.pairs]
        print(json.dumps({"submissions": facts, "verdict": verdict, "pairs": pairs}, indent=2))
        return
    metric = next(iter(found.values())).metric
    table = Table("submission", title=f"{metric} of the {known.track} track")
    parts = [part for part in known.parts if known.parts[part]]
    for part in parts:
        table.add_column(f"{part} ({len(known.parts[part]):,} queries)", justify="right")
    for name, own in found.items():
        shown = [f"{own.scores[part]:.5f}" if part in own.scores else "-" for part in parts]
        table.add_row(Text(printable(name)), *shown)  # no markup in names
    console = Console()
    Console(width=None if console.is_terminal else 140).print(table)
    if compared is not None:
        print(printable(compared.conclusion.text))
        for pair in compared.pairs:
            print(f"- {printable(pair.sentence)}")
