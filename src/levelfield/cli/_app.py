"""The verbs, put together, and how errors leave the program."""

from __future__ import annotations

import sys
from importlib import import_module

import click
import typer

import levelfield
from levelfield.cli import (
    compare,
    data,
    data_prepare,
    demo,
    evaluate,
    index,
    ls,
    plan,
    presets,
    published,
    report,
    reproduce,
    run,
    search,
    study,
    sweep,
)
from levelfield.errors import LevelfieldError

app = typer.Typer(
    name="levelfield",
    help="The level playing field for deep metric learning: train, tune, test and compare, honestly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("plan")(plan.plan)
app.command("run")(run.run)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("sweep")(sweep.sweep)
app.command("reproduce")(reproduce.reproduce)
app.command("evaluate")(evaluate.evaluate)
app.command("index")(index.index)
app.command("search")(search.search)
app.command("ls")(ls.ls)
app.add_typer(study.app, name="study")
data.app.command("prepare")(data_prepare.prepare)
app.add_typer(data.app, name="data")
app.add_typer(presets.app, name="presets")
app.add_typer(published.app, name="published")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"levelfield {levelfield.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Options that go before the verb."""


def run_app(arguments: list[str]) -> int:
    """Run one command; the exit code is 0 for success, 1 for failure, 2 for wrong usage."""
    debug = "--debug" in arguments
    try:
        code = app([a for a in arguments if a != "--debug"], standalone_mode=False)
    except LevelfieldError as error:
        if debug:
            raise
        return _say(str(error), error.exit_code)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return _say("stopped; give the same command again to go on where it was", 130)
    except Exception as error:
        if debug:
            raise
        return _say(f"unexpected {type(error).__name__}: {error} (--debug shows where)", 1)
    return code if isinstance(code, int) else 0


def _say(message: str, code: int) -> int:
    line = " ".join(message.split())
    console = import_module("rich.console").Console(stderr=True, soft_wrap=True)
    console.print(f"[bold red]error:[/] {import_module('rich.markup').escape(line)}", highlight=False)
    sys.stderr.flush()
    return code
