"""``levelfield evaluate``: score embeddings made by anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli._rerank import show_reranking
from levelfield.errors import UsageError

if TYPE_CHECKING:
    from levelfield.metrics import Scores


def evaluate(  # noqa: PLR0917 - a command's options are its parameters
    file: Annotated[Path, typer.Argument(help="Embeddings: npy, npz, safetensors, csv or parquet.")],
    labels: Annotated[
        Path | None, typer.Option(help="Labels, if FILE has none: npy, csv, or text with one per line.")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", "-m", help="A measure; may be given several times.")
    ] = None,
    gallery: Annotated[Path | None, typer.Option(help="Search here; by default, in FILE itself.")] = None,
    gallery_labels: Annotated[Path | None, typer.Option(help="Labels of the gallery.")] = None,
    distance: Annotated[str, typer.Option(help="cosine or euclidean.")] = "cosine",
    bootstrap: Annotated[int, typer.Option(help="Resamples for 95% intervals; 0 for none.", min=0)] = 0,
    seed: Annotated[int, typer.Option(help="Seeds k-means and the bootstrap.")] = 0,
    cluster_seeds: Annotated[int, typer.Option(help="How often k-means is run.", min=1)] = 3,
    index: Annotated[
        str, typer.Option(help='"exact", or a faiss recipe: "IVF1024,Flat;nprobe=16".')
    ] = "exact",
    per_query: Annotated[Path | None, typer.Option(help="Write the value of each query to this CSV.")] = None,
    rerank: Annotated[
        list[str] | None,
        typer.Option(help="Compare rankings with and without: aqe, dba, k_reciprocal ..., or all."),
    ] = None,
    development: Annotated[
        Path | None, typer.Option(help="Embeddings of other classes, on which --rerank is tuned.")
    ] = None,
    development_labels: Annotated[Path | None, typer.Option(help="Their labels.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Score embeddings in a file: retrieval, clustering, structure."""
    from levelfield.metrics import DEFAULT
    from levelfield.metrics import evaluate as score
    from levelfield.metrics.files import labelled, write_per_query

    queries = labelled(file, labels=labels, option="--labels")
    items = None if gallery is None else labelled(gallery, labels=gallery_labels, option="--gallery-labels")
    if rerank:
        if development is None:
            raise UsageError("--rerank is tuned on other classes than those scored; give --development FILE")
        others = labelled(development, labels=development_labels, option="--development-labels")
        show_reranking(queries, items, others, names=rerank, metrics=metric, seed=seed, as_json=as_json)
        return
    with _progress(quiet=quiet or as_json) as progress:
        scores = score(
            queries.embeddings,
            queries.labels,
            metrics=metric or DEFAULT,
            gallery=None if items is None else items.embeddings,
            gallery_labels=None if items is None else items.labels,
            distance=distance,  # type: ignore[arg-type]  # checked there, with a better error
            per_query=per_query is not None,
            bootstrap=bootstrap,
            seed=seed,
            cluster_seeds=cluster_seeds,
            index=index,
            progress=progress,
        )
    if per_query is not None:
        write_per_query(scores, per_query)
    _show(scores, as_json=as_json)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr, so that stdout stays for results; nothing if ``quiet``."""
    if quiet:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("queries", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _show(scores: Scores, *, as_json: bool) -> None:
    import json

    from rich.console import Console
    from rich.table import Table

    if as_json:
        print(json.dumps(scores.as_dict(), indent=2))
        return
    table = Table("measure", title=f"{scores.queries} queries, {scores.skipped} without anything to find")
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
