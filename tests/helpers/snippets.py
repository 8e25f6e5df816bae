"""Runner of the fenced blocks of README.md, CONTRIBUTING.md and docs/.

The line above a fence may hold one of two comments, which the rendered page does not show:

- ``<!-- file: NAME -->``: the block is that file; it is written before the other blocks run. A Python file is
  also loaded as a plug-in before the other Python blocks.
- ``<!-- not run: REASON -->``: the block cannot run here.

``python -m tests.helpers.snippets (python | shell) DIRECTORY`` runs all blocks in DIRECTORY and prints
the failures as JSON, by document. Python blocks of one document share a module.
Each document has its own directory.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import io
import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHELL = ("sh", "console")
FENCE = re.compile(
    r"(?:^<!-- (?P<mark>file|not run): (?P<value>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
# Settings that make a run small; they override those of the document.
TINY = {
    "search.trials": "1",
    "search.sampler": "random",
    "confirm.reruns": "1",
    "engine.workers": "0",
    "training.max_epochs": "1",
    "training.iterations_per_epoch": "2",
    "split.folds": "2",
    "dataset.samples_per_class": "4",
    "trunk.width": "4",
}
GLYPHS_ONLY = ("dataset.samples_per_class", "trunk.width")
SETTABLE = (["run"], ["plan"], ["sweep"], ["study", "test-feedback"])


@dataclass(frozen=True)
class Block:
    """Fenced block: its language, its text, the line of its fence, and the comment above it."""

    language: str
    text: str
    line: int
    file: str | None = None
    not_run: str | None = None


def blocks(document: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a document, in order."""
    text = document.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        line = text[: match.start("text")].count("\n")
        comment = {match["mark"]: match["value"]} if match["mark"] else {}
        yield Block(match["language"], match["text"], line, comment.get("file"), comment.get("not run"))


def name_of(document: Path) -> str:
    """Return the document's path in the repository."""
    return str(document.relative_to(ROOT))


def commands(block: Block) -> list[list[str]]:
    """Return the commands of a shell block as lists of arguments."""
    lines = (line.removeprefix("$ ") for line in block.text.splitlines())
    return [parts for line in lines if (parts := shlex.split(line, comments=True))]


def small(arguments: list[str]) -> list[str]:
    """Return the same command with settings that make it fast."""
    if arguments[0] == "models":
        return [*arguments, "--seconds", "0", "--quiet"]
    if not any(arguments[: len(verb)] == verb for verb in SETTABLE):
        return arguments
    tiny = TINY | ({"hyperparameters": "defaults"} if arguments[0] == "sweep" else {})
    if _uses_photos(arguments):
        tiny = {key: value for key, value in tiny.items() if key not in GLYPHS_ONLY}
    settings = [part for key, value in tiny.items() for part in ("--set", f"{key}={value}")]
    return [*arguments, *settings, *(["--quiet"] if arguments[0] != "plan" else [])]


def _uses_photos(arguments: list[str]) -> bool:
    """Return True if the command's experiment file uses an image folder and a network of timm."""
    files = [Path(part) for part in arguments if part.endswith(".yaml")]
    return any("preset: laptop" in file.read_text() for file in files if file.exists())


def enter_directory(document: Path, directory: Path) -> None:
    """Make the document's directory, write its files there, and change to it."""
    own = directory / name_of(document).replace("/", "_")
    own.mkdir()
    os.chdir(own)
    for block in blocks(document):
        if block.file is not None:
            Path(block.file).write_text(block.text)


def run_python(document: Path, directory: Path) -> None:
    """Run a document's Python blocks as one module whose line numbers are the document's."""
    from levelfield.core.registry import load_plugin_file

    enter_directory(document, directory)
    script = [(HERE / "snippet_fixtures.py").read_text() + f"\nprepare({name_of(document)!r}, globals())"]
    examples = []
    line = 0
    lines = [""] * len(document.read_text(encoding="utf-8").splitlines())
    for block in blocks(document):
        if block.language != "python" or block.not_run:
            continue
        if block.file is not None:
            load_plugin_file(block.file)
            continue
        if block.text.startswith(">>>"):
            examples.append(block)
            continue
        for line, text in enumerate(block.text.splitlines(), start=block.line):
            lines[line] = text
    path = directory / (name_of(document).replace("/", "_").replace(".md", "_md") + ".py")
    path.write_text("\n".join(lines) + "\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    exec("\n".join(script), module.__dict__)
    spec.loader.exec_module(module)
    for block in examples:
        test = doctest.DocTestParser().get_doctest(
            block.text, module.__dict__, path.stem, str(path), block.line
        )
        report = io.StringIO()
        failed = doctest.DocTestRunner(verbose=False).run(test, out=report.write, clear_globs=False).failed
        assert not failed, report.getvalue()


def run_shell(document: Path, directory: Path) -> None:
    """Run a document's ``levelfield`` commands in a directory with the files that they need."""
    from levelfield.cli._app import run_app
    from tests.helpers.snippet_fixtures import prepare_directory

    wanted = [b for b in blocks(document) if b.language in SHELL and not b.not_run]
    if not wanted:
        return
    enter_directory(document, directory)
    prepare_directory(name_of(document), small)
    for block in wanted:
        for command in commands(block):
            assert command[0] == "levelfield", (
                f"line {block.line}: cannot run {command[0]}; mark it `not run`"
            )
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                code = run_app(small(command[1:]))
            assert code == 0, f"line {block.line}: {shlex.join(command)} ends with {code}: {out.getvalue()}"


def main(kind: str, directory: Path) -> None:
    """Run one kind of block of every document; print the failures as JSON."""
    run = {"python": run_python, "shell": run_shell}[kind]
    failures = {}
    for document in DOCUMENTS:
        os.chdir(directory)
        try:
            # Waits for the disk protect from power failures only.
            with contextlib.redirect_stdout(io.StringIO()), mock.patch("os.fsync"):
                run(document, directory)
        except BaseException:
            failures[name_of(document)] = traceback.format_exc(limit=-3)
    print(json.dumps(failures))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
