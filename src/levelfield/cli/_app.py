"""Command-line app: all verbs, and the handling of errors."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import Any

import typer

import levelfield
from levelfield.cli import (
    anchor,
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
    models,
    new,
    plan,
    power,
    preregister,
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
from levelfield.cli._hashing import HashingLines
from levelfield.cli._help import HelpGroup, prepare_help
from levelfield.core.errors import LevelfieldError, did_you_mean, mask_password
from levelfield.core.hashing import report_hashing

# Depending on its version, Typer uses the installed click or its own copy; take the class that is in use.
_CommandLineError: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
OPTIONAL_PACKAGES = ("torch", "torchvision", "timm")  # docs/install.md, "Without torch"
INTERRUPTED = 130

COMPLETION_VARIABLE = "_LEVELFIELD_COMPLETE"  # set by the scripts that --install-completion writes
COMPLETION_OPTIONS = {"--install-completion", "--show-completion"}

app = typer.Typer(
    name="levelfield",
    cls=HelpGroup,
    help="Compare deep metric learning methods under equal conditions: tune, train, test, report.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# The panels of `levelfield --help`, in the order in which a person meets them.
_PANELS: dict[str, dict[str, Any]] = {
    "Compare": {
        "demo": demo.demo,
        "new": new.new,
        "plan": plan.plan,
        "preregister": preregister.preregister,
        "run": run.run,
        "compare": compare.compare,
        "evaluate": evaluate.evaluate,
        "models": models.models,
        "sweep": sweep.sweep,
    },
    "Look": {
        "report": report.report,
        "serve": serve.serve,
        "site": site.site,
        "track": track.track,
        "ls": ls.ls,
        "presets": presets.app,
        "published": published.app,
    },
    "Use the winner": {
        "export": export.export,
        "index": index.index,
        "search": search.search,
    },
    "Study and check": {
        "doctor": doctor.doctor,
        "data": data.app,
        "power": power.power,
        "verify": verify.verify,
        "anchor": anchor.anchor,
        "reproduce": reproduce.reproduce,
        "archive": archive.archive,
        "export-study": export_study.export_study,
        "study": study.app,
    },
}
data.app.command("prepare")(data_prepare.prepare)
data.app.command("shift")(data_shift.shift)
data.app.command("overlap")(data_overlap.overlap)
for _panel, _verbs in _PANELS.items():
    for _name, _verb in _verbs.items():
        if isinstance(_verb, typer.Typer):
            app.add_typer(_verb, name=_name, rich_help_panel=_panel)
        else:
            app.command(_name, rich_help_panel=_panel)(_verb)
prepare_help(app)


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
    """Options before the verb."""


def run_app(arguments: list[str]) -> int:
    """Run one command and return its exit code: 0 success, 1 failure, 2 wrong usage."""
    debug = "--debug" in arguments
    try:
        with report_hashing(HashingLines()):
            code = app(
                args=[a for a in arguments if a != "--debug"], prog_name="levelfield", standalone_mode=False
            )
    except LevelfieldError as error:
        if debug:
            raise
        return _print_error(str(error), error.exit_code)
    except _CommandLineError as error:
        if debug:
            raise
        return _print_error(_usage_error_message(error), error.exit_code)
    except SystemExit as error:
        # shell completion, or a request for the completion script
        if COMPLETION_VARIABLE in os.environ or COMPLETION_OPTIONS & set(arguments):
            raise
        return _handle_exit(error)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if debug:
            raise
        return _print_error(_unexpected_error_message(error), 1)
    if code == INTERRUPTED:  # from the exception above, or an exit code of typer
        return _print_error("stopped; run the same command again to continue", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _unexpected_error_message(error: Exception) -> str:
    """Return the message for an unexpected exception, or for a missing optional package."""
    if isinstance(error, ModuleNotFoundError) and error.name in OPTIONAL_PACKAGES:
        return f"this verb needs {error.name}, which is not installed; run `pip install {error.name}`"
    return f"unexpected {type(error).__name__}: {error} (--debug shows the traceback)"


def _handle_exit(error: SystemExit) -> int:
    if isinstance(error.__context__, BrokenPipeError):  # the reader of the pipe has closed it
        return 1
    return _print_error(f"a plug-in called sys.exit({error.code!r}); raise an exception instead", 1)


def _usage_error_message(error: Any) -> str:
    """Return a usage error as one line: the error, the nearest valid name, and the help command."""
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


def _print_error(message: str, code: int) -> int:
    line = mask_password(" ".join(message.split()))
    console = import_module("rich.console").Console(stderr=True, soft_wrap=True)
    console.print(f"[bold red]error:[/] {import_module('rich.markup').escape(line)}", highlight=False)
    sys.stderr.flush()
    return code
