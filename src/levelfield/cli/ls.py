"""``levelfield ls``: list of plug-ins with paper, parameters and ranges."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from levelfield.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from levelfield.core.registry import Card, RegistryEntry

REGISTRIES = {
    "losses": "levelfield.losses",
    "regularizers": "levelfield.losses.regularizers",
    "syntheses": "levelfield.losses.synthesis",
    "miners": "levelfield.miners",
    "samplers": "levelfield.samplers",
    "methods": "levelfield.methods",
    "datasets": "levelfield.data",
    "splits": "levelfield.data.splits",
    "transforms": "levelfield.data.transforms",
    "trunks": "levelfield.models",
    "metrics": "levelfield.metrics",
    "trackers": "levelfield.track",
}


CUTS, MODELS = "cuts", "models"


def ls(
    kind: Annotated[
        str,
        typer.Argument(
            help=f"One of: {', '.join(REGISTRIES)}; {MODELS}; or {CUTS}, with a trunk.", show_default=False
        ),
    ],
    trunk: Annotated[
        str | None, typer.Argument(help="Trunk for cuts, such as timm:resnet50.", show_default=False)
    ] = None,
    plugin: Annotated[list[Path] | None, typer.Option(help="Plug-in file to load (repeatable).")] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Image size for cuts, in pixels.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the plug-ins of one kind, models worth a try, or the layers where a trunk can be cut."""
    from levelfield.core.registry import load_plugin_file

    kinds = [*REGISTRIES, MODELS, CUTS]
    if kind not in kinds:
        raise UsageError(f'unknown kind "{kind}"{did_you_mean(kind, kinds)}')
    for file in plugin or []:
        load_plugin_file(file)
    if kind == CUTS:
        _list_cuts(trunk, size, as_json=as_json)
        return
    if kind == MODELS:
        _list_models(as_json=as_json)
        return
    registry = import_module(REGISTRIES[kind]).registry
    entries = [registry[name] for name in registry.names()]
    if as_json:
        print(json.dumps([_facts(entry) for entry in entries], indent=2, default=str))
        return
    _print(kind, entries)


def _list_models(*, as_json: bool) -> None:
    from levelfield.models.suggestions import SUGGESTIONS, where_weights_are

    weights = {each.name: where_weights_are(each.name) for each in SUGGESTIONS}
    if as_json:
        print(json.dumps([{**asdict(each), "weights": weights[each.name]} for each in SUGGESTIONS], indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Models worth a try: `levelfield models PHOTOS --models NAME,NAME`")
    for column in ("machine", "model", "parameters (M)", "weights", "why"):
        table.add_column(column, overflow="fold", justify="right" if "(M)" in column else "left")
    for each in SUGGESTIONS:
        table.add_row(each.machine, each.name, f"{each.parameters:.1f}", weights[each.name], each.why)
    console = Console()
    Console(width=None if console.is_terminal else 140).print(table)


def _list_cuts(trunk: str | None, size: int | None, *, as_json: bool) -> None:
    from levelfield import models

    if trunk is None:
        raise UsageError("ls cuts needs a trunk; for example: levelfield ls cuts timm:resnet50")
    image_size = size or models.registry[trunk].card.image_size or 224
    cuts = models.list_cuts(models.create_trunk(trunk), image_size=image_size)
    if not cuts:
        raise UsageError(
            f"trunk {trunk} cannot be cut, since its forward pass cannot be traced; choose another trunk"
        )
    if as_json:
        print(json.dumps([{**asdict(cut), "bytes": cut.bytes} for cut in cuts], indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{len(cuts)} cuts of {trunk} at {image_size} pixels")
    for column in (
        "from",
        "activation",
        "kB per image and view",
        "parameters trained",
        "multiply-adds trained",
    ):
        table.add_column(column, justify="left" if column in ("from", "activation") else "right")
    for cut in cuts:
        shape = " x ".join(map(str, cut.shape))
        shares = (f"{100 * share:.1f}%" for share in (cut.parameters, cut.multiply_adds))
        table.add_row(cut.name, shape, f"{cut.bytes / 1000:.1f}", *shares)
    Console(width=120).print(table)


def _facts(entry: RegistryEntry[Card]) -> dict[str, Any]:
    from levelfield.core.space import describe_range

    return {
        "name": entry.name,
        "summary": entry.card.summary,
        "paper": entry.card.paper,
        "year": entry.card.year,
        "parameters": list(entry.parameters),
        "space": {name: describe_range(dimension) for name, dimension in entry.card.space.items()},
    }


def _print(kind: str, entries: list[RegistryEntry[Card]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{len(entries)} {kind}", show_lines=False)
    for column in ("name", "summary", "search space", "paper"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        facts = _facts(entry)
        searched = "\n".join(f"{name}: {text}" for name, text in facts["space"].items())
        year = f" ({facts['year']})" if facts["year"] else ""
        table.add_row(facts["name"], facts["summary"], searched, facts["paper"] + year)
    console = Console()
    Console(width=None if console.is_terminal else 140).print(table)
