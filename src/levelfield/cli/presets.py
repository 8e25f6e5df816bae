"""``levelfield presets``: protocols of papers by name."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(help="List and show presets: protocols of papers by name.", no_args_is_help=True)


@app.command("list")
def list_presets() -> None:
    """List the names of all presets."""
    from levelfield.config import preset_names

    for name in preset_names():
        typer.echo(name)


@app.command("show")
def show(name: Annotated[str, typer.Argument(help="Name of the preset.", show_default=False)]) -> None:
    """Print a preset with the source of each value."""
    from levelfield.config import preset_text

    typer.echo(preset_text(name), nl=False)
