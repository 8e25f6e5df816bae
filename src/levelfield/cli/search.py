"""``levelfield search``: the images of an index that are most similar to an image or a text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from levelfield.cli._trust import TrustOption
from levelfield.core.errors import UsageError, printable


def search(  # noqa: PLR0917 - a command's options are its parameters
    index: Annotated[str, typer.Argument(help="Index directory, or postgresql://user@host/database.")],
    images: Annotated[
        list[Path] | None,
        typer.Argument(help="Query image; several images of one object form one query.", show_default=False),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Search with words instead; the model needs a text tower.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Number of neighbors.")] = 20,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            help="Condition on label, folder, date or a metadata column, as date>=2020 (repeatable).",
        ),
    ] = None,
    min_similarity: Annotated[
        float | None, typer.Option(help="Leave out neighbors below this similarity.", min=-1, max=1)
    ] = None,
    rerank: Annotated[
        str, typer.Option(help="Order of the neighbors: none, aqe, alpha_qe or k_reciprocal.")
    ] = "none",
    model: Annotated[
        Path | None,
        typer.Option(help="Model directory; only for an index in a database.", show_default=False),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write an HTML page with the images.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    trust: TrustOption = False,
) -> None:
    """Find the images of an index that are most similar to an image, or fit a text best."""
    from levelfield.retrieval.index import Searcher
    from levelfield.retrieval.index.result_page import summarize_answer, write_result_page

    queries = list(images or [])
    if bool(queries) == (text is not None):
        raise UsageError("give one or several images, or --text")
    searcher = Searcher(index, model=model, trust=trust)
    options: dict[str, Any] = {
        "k": k,
        "filters": filters or (),
        "min_similarity": min_similarity,
        "rerank": rerank,
    }
    answer = searcher.search(queries, **options) if text is None else searcher.search_text(text, **options)
    if html is not None:
        write_result_page(html, queries, answer, text=text or "")
    if as_json:
        typer.echo(json.dumps(answer.as_dict(), indent=2))
        return
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    table = Table("", "similarity", "label", Column("image", overflow="fold"), title=summarize_answer(answer))
    for place, neighbor in enumerate(answer.neighbors, start=1):
        style = "dim" if neighbor.is_match is False else None
        names = [Text(printable(name)) for name in (neighbor.label, neighbor.name)]  # no markup in names
        table.add_row(str(place), f"{neighbor.similarity:.4f}", *names, style=style)
    console = Console()
    console.print(table)
    for note in answer.notes:
        console.print(f"note: {note}", soft_wrap=True)
