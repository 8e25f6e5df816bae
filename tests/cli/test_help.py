"""Every verb has an example that its parser accepts; shell completion works."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from levelfield.cli._app import app
from levelfield.cli._examples import EXAMPLES


def verbs(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        for part, below in command.commands.items():
            yield from verbs(below, f"{name} {part}".strip())
    else:
        yield name, command


VERBS = dict(verbs(typer.main.get_command(app)))


def test_every_verb_has_an_example() -> None:
    assert VERBS.keys() == EXAMPLES.keys(), "write one in cli/_examples.py"


@pytest.mark.parametrize("verb", VERBS)
def test_the_example_is_a_command_that_the_verb_takes(verb: str) -> None:
    example = EXAMPLES[verb]
    assert VERBS[verb].epilog == f"Example: {example}"
    words = shlex.split(example)
    named = ["levelfield", *verb.split()]
    assert words[: len(named)] == named
    VERBS[verb].make_context(verb, words[len(named) :])  # raises if an argument or option is wrong


def test_options_look_the_same_for_every_verb() -> None:
    """Each ``--out`` is also ``-o``, and a flag shows no type."""
    for verb, command in VERBS.items():
        for option in command.get_params(typer.Context(command)):
            if "--out" in option.opts:
                assert "-o" in option.opts, verb
            if getattr(option, "is_flag", False):
                assert option.metavar == "", (verb, option.opts)


def test_a_shell_can_complete_verbs() -> None:
    asked = {"_LEVELFIELD_COMPLETE": "complete_bash", "COMP_WORDS": "levelfield exp", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "levelfield"],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["export", "export-study"], done.stderr
    shown = subprocess.run(
        [sys.executable, "-m", "levelfield", "--show-completion", "bash"],
        # whichever shell started the tests, if any
        env=os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "_LEVELFIELD_COMPLETE" in shown.stdout
    assert shown.returncode == 0 and not shown.stderr
