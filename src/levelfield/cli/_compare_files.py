"""``levelfield evaluate`` with several files: which files are which models, and the output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from levelfield.cli._progress import task_progress
from levelfield.core.errors import UsageError, printable

if TYPE_CHECKING:
    from levelfield.api import Items


def list_models(files: Sequence[Path], groups: Sequence[str], *, grouped: bool) -> dict[str, list[Path]]:
    """Return the files of each model.

    Args:
        files: Files without a group.
        groups: Texts like ``NAME=FILE,FILE``.
        grouped: Whether names like ``a-1``, ``a-2`` are seeds of one model.
    """
    from levelfield.api import group_files

    found: dict[str, list[Path]] = {}
    for text in groups:
        name, equals, listed = text.partition("=")
        parts = [Path(part.strip()) for part in listed.split(",") if part.strip()]
        if not equals or not name.strip() or not parts:
            raise UsageError(f'--group "{text}" is not NAME=FILE,FILE; write e.g. --group new=a.npz,b.npz')
        if name in found:
            raise UsageError(f'--group names "{name}" twice; list all its files in one --group')
        found[name.strip()] = parts
    named = [file for group in found.values() for file in group]
    rest = [file for file in files if file not in named]
    twice = next((file for n, file in enumerate([*named, *rest]) if file in [*named, *rest][:n]), None)
    if twice is not None:
        raise UsageError(f"{twice} is given twice; give each file once")
    own = group_files(rest) if grouped else {str(file.with_suffix("")): [file] for file in rest}
    for name, group in own.items():
        if name in found:
            raise UsageError(f'both --group and a file are called "{name}"; choose another name in --group')
        found[name] = group
    if not found:
        raise UsageError("there is nothing to score; give a file of embeddings, e.g. embeddings.npz")
    return found


def compare_files(
    models: Mapping[str, Sequence[Path]],
    *,
    labels: Path | None,
    galleries: Sequence[Path],
    gallery_labels: Path | None,
    relevance: Path | None,
    metrics: Sequence[str],
    equivalence: float | None,
    images: Path | None,
    report: Path | None,
    as_json: bool,
    quiet: bool,
    options: Mapping[str, Any],
) -> None:
    """Compare the models, print the result, and write the page; exit with 1 if a file was left out."""
    from rich.console import Console
    from rich.markdown import Markdown

    from levelfield.api import NamedLists, evaluate_sources
    from levelfield.reports import evaluation_text

    files = [file for group in models.values() for file in group]
    if galleries and len(galleries) != len(files):
        raise UsageError(
            f"there are {len(galleries)} galleries for {len(files)} files; give one --gallery per FILE"
        )
    lists = None if relevance is None else NamedLists.read(relevance, together=not galleries)
    searched = dict(zip(files, galleries or (files if lists else ()), strict=False))
    with task_progress(quiet=quiet or as_json) as progress:
        result = evaluate_sources(
            {name: [_source(file, labels) for file in group] for name, group in models.items()},
            None
            if not searched
            else {
                name: [_source(searched[file], gallery_labels) for file in group]
                for name, group in models.items()
            },
            metrics=metrics,
            images=None if images is None else partial(_image_files, images),
            equivalence=equivalence,
            lists=lists,
            progress=progress.callback,
            **options,
        )
    if report is not None:
        result.write_report(report)
    if as_json:
        print(json.dumps(result.as_dict(), indent=2))
    else:
        text = evaluation_text(result.comparison)
        groups = [
            f"{printable(name)}: {len(group)} seeds" for name, group in models.items() if len(group) > 1
        ]
        console = Console()
        if console.is_terminal:
            console.print(Markdown(text))
            console.print(printable(result.verdict), style="bold", highlight=False, markup=False)
        else:
            print(text, end="")
        if groups:
            print(f"\nFiles of one model are its seeds ({', '.join(groups)}); --no-groups keeps them apart.")
        if report is not None:
            print(f"\n{report}")
    if result.left_out:
        for reason in result.left_out.values():
            typer.echo(f"left out: {reason}", err=True)
        raise typer.Exit(1)


def _source(file: Path, labels: Path | None) -> Any:
    from levelfield.api import Source
    from levelfield.metrics.files import read_embeddings

    return Source(str(file), lambda: read_embeddings(file, labels=labels))


def _image_files(directory: Path, *items: Items | None) -> list[Path]:
    """Return the image of each item; names that lead out of the directory are refused.

    An embedding file may come from a stranger, and the page with its images may be published.
    """
    if not directory.is_dir():
        raise UsageError(f"--images {directory} is not a directory; give the one that holds the images")
    found = []
    root = directory.resolve()
    for part in items:
        if part is None:
            continue
        file = part.source
        if part.ids is None:
            raise UsageError(f'{file} names no images; save their paths as "paths", or leave out --images')
        for name in part.ids.tolist():
            path = (root / name).resolve()
            if not path.is_relative_to(root):
                raise UsageError(f'{file} names "{name}", which is outside {directory}; correct the path')
            found.append(path)
    return found
