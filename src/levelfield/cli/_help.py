"""Help pages: flags have no type, and every verb has an example."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from levelfield.cli._examples import EXAMPLES


class _PlainFlags:
    """Shows flags without the type ``<bool>``."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command, with the text that help shows for their types."""
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # a mixin of click's commands
        for parameter in found:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return found


class HelpCommand(_PlainFlags, TyperCommand):
    """Command with plain flags in its help."""


class HelpGroup(_PlainFlags, TyperGroup):
    """Group of commands with plain flags in its help."""


def prepare_help(app: typer.Typer, prefix: str = "") -> None:
    """Add each verb's example below its help, and show flags without a type, also for verbs in groups."""
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "")
        command.cls = HelpCommand
        if example := EXAMPLES.get(f"{prefix}{name}"):
            command.epilog = f"Example: {example}"
    for group in app.registered_groups:
        if group.typer_instance is not None:
            group.cls = HelpGroup
            prepare_help(group.typer_instance, f"{prefix}{group.name} ")
