"""``levelfield ls``: what is registered, with paper, parameters and ranges."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from levelfield.registry import Card, Entry

HOMES = {
    "losses": "levelfield.losses",
    "miners": "levelfield.miners",
    "samplers": "levelfield.batches",
    "methods": "levelfield.methods",
    "datasets": "levelfield.data",
    "splits": "levelfield.data.splits",
    "transforms": "levelfield.data.transforms",
    "trunks": "levelfield.models",
    "metrics": "levelfield.metrics",
}


def ls(
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(HOMES)}.", show_default=False)],
    plugin: Annotated[
        list[Path] | None, typer.Option(help="Load this plug-in file first (repeatable).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """List the plug-ins of one kind."""
    from levelfield.registry import load_plugin_file

    if kind not in HOMES:
        raise UsageError(f'nothing is listed under "{kind}"{did_you_mean(kind, HOMES)}')
    for file in plugin or []:
        load_plugin_file(file)
    registry = import_module(HOMES[kind]).registry
    entries = [registry[name] for name in registry.names()]
    if as_json:
        print(json.dumps([_facts(entry) for entry in entries], indent=2, default=str))
        return
    _print(kind, entries)


def _facts(entry: Entry[Card]) -> dict[str, Any]:
    from levelfield.space import describe

    return {
        "name": entry.name,
        "summary": entry.card.summary,
        "paper": entry.card.paper,
        "year": entry.card.year,
        "parameters": list(entry.parameters),
        "space": {name: describe(dimension) for name, dimension in entry.card.space.items()},
    }


def _print(kind: str, entries: list[Entry[Card]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{len(entries)} {kind}", show_lines=False)
    for column in ("name", "what it is", "searched", "paper"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        facts = _facts(entry)
        searched = "\n".join(f"{name}: {text}" for name, text in facts["space"].items())
        year = f" ({facts['year']})" if facts["year"] else ""
        table.add_row(facts["name"], facts["summary"], searched, facts["paper"] + year)
    console = Console()
    Console(width=None if console.is_terminal else 140).print(table)
