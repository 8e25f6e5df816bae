"""The verbs, put together, and how errors leave the program."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import Any

import typer

import levelfield
from levelfield.cli import (
    archive,
    compare,
    data,
    data_overlap,
    data_prepare,
    data_shift,
    demo,
    doctor,
    evaluate,
    export,
    export_study,
    index,
    ls,
    new,
    plan,
    power,
    presets,
    published,
    report,
    reproduce,
    run,
    search,
    serve,
    site,
    study,
    sweep,
    track,
    verify,
)
from levelfield.cli._examples import add_examples
from levelfield.errors import LevelfieldError, did_you_mean

# Typer brings its own copy of click, or uses the installed one, by its version; this is the one in use.
_CommandLineError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
LEFT_OUT = ("torch", "torchvision", "timm")  # docs/install.md, "Without torch"
INTERRUPTED = 130

COMPLETING = "_LEVELFIELD_COMPLETE"  # set by the scripts that --install-completion writes
COMPLETION_OPTIONS = {"--install-completion", "--show-completion"}

app = typer.Typer(
    name="levelfield",
    help="The level playing field for deep metric learning: train, tune, test and compare, honestly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("new")(new.new)
app.command("doctor")(doctor.doctor)
app.command("plan")(plan.plan)
app.command("power")(power.power)
app.command("run")(run.run)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("sweep")(sweep.sweep)
app.command("reproduce")(reproduce.reproduce)
app.command("verify")(verify.verify)
app.command("archive")(archive.archive)
app.command("track")(track.track)
app.command("evaluate")(evaluate.evaluate)
app.command("export")(export.export)
app.command("export-study")(export_study.export_study)
app.command("index")(index.index)
app.command("search")(search.search)
app.command("serve")(serve.serve)
app.command("site")(site.site)
app.command("ls")(ls.ls)
app.add_typer(study.app, name="study")
data.app.command("prepare")(data_prepare.prepare)
data.app.command("shift")(data_shift.shift)
data.app.command("overlap")(data_overlap.overlap)
app.add_typer(data.app, name="data")
app.add_typer(presets.app, name="presets")
app.add_typer(published.app, name="published")
add_examples(app)


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
        code = app(
            args=[a for a in arguments if a != "--debug"], prog_name="levelfield", standalone_mode=False
        )
    except LevelfieldError as error:
        if debug:
            raise
        return _say(str(error), error.exit_code)
    except _CommandLineError as error:
        if debug:
            raise
        return _say(_what_is_wrong(error), error.exit_code)
    except SystemExit as error:
        # a shell asks what could come next, or somebody for what to tell the shell
        if COMPLETING in os.environ or COMPLETION_OPTIONS & set(arguments):
            raise
        return _explain_exit(error)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if debug:
            raise
        return _say(_what_happened(error), 1)
    if code == INTERRUPTED:  # by an error above, or already made an exit code by typer
        return _say("stopped; give the same command again to go on where it was", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _what_happened(error: Exception) -> str:
    """An error that nobody foresaw, but for one: a package that was left out on purpose."""
    if isinstance(error, ModuleNotFoundError) and error.name in LEFT_OUT:
        return f"this verb needs {error.name}, which is not installed; `pip install {error.name}`"
    return f"unexpected {type(error).__name__}: {error} (--debug shows where)"


def _explain_exit(error: SystemExit) -> int:
    if isinstance(error.__context__, BrokenPipeError):  # the reader of a pipe has seen enough
        return 1
    return _say(f"a plug-in called sys.exit({error.code!r}); let it raise an error instead", 1)


def _what_is_wrong(error: Any) -> str:
    """A wrong command line in one line: what is wrong, the nearest thing that is right, where to read on."""
    context = getattr(error, "ctx", None)
    if context is None:
        return str(error.format_message())
    text = str(error.format_message()).rstrip(".")
    unknown = re.match(r"No such (command|option):? '?([^ '.]+)'?", text)
    if unknown and unknown[1] == "command":
        verbs = context.command.list_commands(context)
        text = f'{context.command_path} has no verb "{unknown[2]}"{did_you_mean(unknown[2], verbs)}'
    elif unknown:
        options = [name for parameter in context.command.params for name in parameter.opts if name[:1] == "-"]
        text = f"{context.command_path} has no option {unknown[2]}{did_you_mean(unknown[2], options)}"
    return f"{text} (see `{context.command_path} --help`)"


def _say(message: str, code: int) -> int:
    line = " ".join(message.split())
    console = import_module("rich.console").Console(stderr=True, soft_wrap=True)
    console.print(f"[bold red]error:[/] {import_module('rich.markup').escape(line)}", highlight=False)
    sys.stderr.flush()
    return code
