"""``levelfield search``: the pictures of an index that are most like a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from levelfield.errors import printable


def search(  # noqa: PLR0917 - a command's options are its parameters
    index: Annotated[str, typer.Argument(help="The index: a folder, or postgresql://user@host/database.")],
    pictures: Annotated[
        list[Path], typer.Argument(help="A picture; several are one query, of the same object.")
    ],
    k: Annotated[int, typer.Option("-k", help="How many neighbours.")] = 20,
    model: Annotated[
        Path | None, typer.Option(help="The model folder, for an index in a database.", show_default=False)
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Also write a page with the pictures.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Find the pictures that are most like a picture, or like several of one object."""
    from levelfield.index import Searcher
    from levelfield.index.page import verdict, write_page

    answer = Searcher(index, model=model).search(list(pictures), k=k)
    if html is not None:
        write_page(html, list(pictures), answer)
    if as_json:
        typer.echo(json.dumps(answer.as_dict(), indent=2))
        return
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    table = Table("", "similarity", "label", Column("picture", overflow="fold"), title=verdict(answer))
    for place, neighbour in enumerate(answer.neighbours, start=1):
        style = "dim" if neighbour.is_match is False else None
        names = [Text(printable(name)) for name in (neighbour.label, neighbour.name)]  # no markup in names
        table.add_row(str(place), f"{neighbour.similarity:.4f}", *names, style=style)
    console = Console()
    console.print(table)
    for note in answer.notes:
        console.print(f"note: {note}", soft_wrap=True)
