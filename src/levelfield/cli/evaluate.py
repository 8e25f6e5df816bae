"""``levelfield evaluate``: score embeddings in files, and compare the models that they are from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli._progress import task_progress
from levelfield.cli._rerank import show_reranking
from levelfield.core.errors import UsageError

if TYPE_CHECKING:
    from levelfield.metrics import Scores


def evaluate(  # noqa: PLR0917 - a command's options are its parameters
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Embeddings: npy, npz, safetensors, csv or parquet. Several files are compared; names like "
            "a-1, a-2 are seeds of one model.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Labels, if a FILE has none: npy, csv, or text with one label per line."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", "-m", help="Metric (repeatable). The verdict is on MAP@R, or on the first."),
    ] = None,
    gallery: Annotated[
        list[Path] | None,
        typer.Option(help="Gallery embeddings, one per FILE, in their order. Defaults to FILE."),
    ] = None,
    gallery_labels: Annotated[Path | None, typer.Option(help="Labels of the gallery.")] = None,
    relevance: Annotated[
        Path | None,
        typer.Option(
            help="JSON or CSV file that lists, for each query, what is relevant and what to ignore, by the "
            '"ids" or "paths" in the FILES; the format is that of the dataset `relevance`.'
        ),
    ] = None,
    distance: Annotated[str, typer.Option(help="Distance: cosine or euclidean.")] = "cosine",
    group: Annotated[
        list[str] | None,
        typer.Option(help="Seeds of one model: NAME=FILE,FILE (repeatable)."),
    ] = None,
    no_groups: Annotated[
        bool, typer.Option("--no-groups", help="Take files like a-1, a-2 as different models.")
    ] = False,
    equivalence: Annotated[
        float | None,
        typer.Option(help="Largest difference that does not matter, in table units. Defaults to 0.5 points."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help='Directory of the images that "paths" in the first FILE names, for --report.'),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the comparison to this HTML page.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of k-means.")] = 0,
    cluster_seeds: Annotated[int, typer.Option(help="Number of k-means runs.", min=1)] = 3,
    index: Annotated[
        str, typer.Option(help='"exact", or a faiss index such as "IVF1024,Flat;nprobe=16".')
    ] = "exact",
    per_query: Annotated[
        Path | None, typer.Option(help="Write the value of each query to this CSV file.")
    ] = None,
    rerank: Annotated[
        list[str] | None,
        typer.Option(help="Compare with re-ranking: aqe, dba, k_reciprocal ..., or all (repeatable)."),
    ] = None,
    development: Annotated[
        Path | None, typer.Option(help="Embeddings of other classes, for tuning --rerank.")
    ] = None,
    development_labels: Annotated[
        Path | None, typer.Option(help="Labels of the development embeddings.")
    ] = None,
    solution: Annotated[
        Path | None,
        typer.Option(
            help="Solution file of the landmark challenge; FILES are then submissions, scored as there."
        ),
    ] = None,
    bootstrap: Annotated[int | None, typer.Option(help="Old option without effect.", hidden=True)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress.")] = False,
) -> None:
    """Score embeddings in a file, or compare the models of several files: is the new one better?"""
    from levelfield.cli._compare_files import compare_files, list_models
    from levelfield.metrics import DEFAULT_METRICS
    from levelfield.metrics import evaluate as score
    from levelfield.metrics.files import read_labeled_embeddings, write_per_query

    if bootstrap is not None:
        print_note("--bootstrap has no effect: intervals count classes as chance and need no resampling")
    if solution is not None:
        from levelfield.cli._solution import show_submissions

        if not files:
            raise UsageError("there is no submission to score; give a CSV file, e.g. submission.csv")
        show_submissions(files, solution, as_json=as_json)
        return
    options = {"distance": distance, "seed": seed, "cluster_seeds": cluster_seeds, "index": index}
    models = list_models(files or [], group or [], grouped=not no_groups)
    if relevance is not None and (labels is not None or gallery_labels is not None):
        raise UsageError("--relevance says what is relevant; leave out --labels and --gallery-labels")
    if sum(map(len, models.values())) > 1 or report is not None or relevance is not None:
        if rerank or per_query is not None:
            raise UsageError(
                "--rerank and --per-query work for one FILE with classes; give one file, without --report "
                "and --relevance"
            )
        compare_files(
            models,
            labels=labels,
            galleries=gallery or [],
            gallery_labels=gallery_labels,
            relevance=relevance,
            metrics=metric or DEFAULT_METRICS,
            equivalence=equivalence,
            images=images,
            report=report,
            as_json=as_json,
            quiet=quiet,
            options=options,
        )
        return
    ((file,),) = models.values()
    queries = read_labeled_embeddings(file, labels=labels, option="--labels")
    if gallery and len(gallery) > 1:
        raise UsageError(f"there are {len(gallery)} galleries for one FILE; give one --gallery per FILE")
    items = (
        read_labeled_embeddings(gallery[0], labels=gallery_labels, option="--gallery-labels")
        if gallery
        else None
    )
    if rerank:
        if development is None:
            raise UsageError("--rerank needs embeddings of other classes for tuning; give --development FILE")
        others = read_labeled_embeddings(
            development, labels=development_labels, option="--development-labels"
        )
        show_reranking(queries, items, others, names=rerank, metrics=metric, seed=seed, as_json=as_json)
        return
    with task_progress(quiet=quiet or as_json) as progress:
        scores = score(
            queries.embeddings,
            queries.labels,
            metrics=metric or DEFAULT_METRICS,
            gallery=None if items is None else items.embeddings,
            gallery_labels=None if items is None else items.labels,
            per_query=per_query is not None,
            intervals=True,
            progress=progress.callback("queries"),
            **options,  # type: ignore[arg-type]  # checked there, with a better error
        )
    if per_query is not None:
        write_per_query(scores, per_query)
    _show(scores, as_json=as_json)


def print_note(text: str) -> None:
    """Print a remark to stderr."""
    typer.echo(f"note: {text}", err=True)


def _show(scores: Scores, *, as_json: bool) -> None:
    import json

    from rich.console import Console
    from rich.table import Table

    if as_json:
        print(json.dumps(scores.as_dict(), indent=2))
        return
    table = Table("metric", title=f"{scores.queries} queries, {scores.skipped} without a relevant image")
    for column, shown in (("score", True), ("95% interval", scores.intervals), ("over seeds", scores.spread)):
        if shown:
            table.add_column(column, justify="right")
    for name, value in scores.items():
        cells = [name, f"{value:.4f}"]
        if scores.intervals:
            bounds = scores.intervals.get(name)
            cells.append(f"{bounds[0]:.4f} to {bounds[1]:.4f}" if bounds else "")
        if scores.spread:
            cells.append(f"± {scores.spread[name]:.4f}" if name in scores.spread else "")
        table.add_row(*cells)
    console = Console()
    console.print(table)
    for note in scores.notes:
        console.print(f"note: {note}", soft_wrap=True)
