"""``levelfield index``: pictures into an index that can be searched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.errors import RunError, UsageError, printable

if TYPE_CHECKING:
    from levelfield.embedders import Preprocessing
    from levelfield.index import Entry, Outcome


def index(  # noqa: PLR0917 - a command's options are its parameters
    source: Annotated[
        str | None,
        typer.Argument(help="A folder of pictures, a CSV file (path, label), or a dataset's name."),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="The model folder.", show_default=False)] = None,
    out: Annotated[
        str, typer.Option("--out", "-o", help="The index: a folder, or postgresql://user@host/database.")
    ] = "index",
    root: Annotated[str | None, typer.Option(help="Folder of the dataset, if it takes one.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", help="Another option of the dataset, as key=value.")
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(help="Remove a picture, or all below a folder, instead of adding.")
    ] = None,
    memory: Annotated[
        float | None, typer.Option(help="GB that the approximate search may take [new index: 4].", min=0.001)
    ] = None,
    recall: Annotated[
        float | None, typer.Option(help="Recall at 10 to aim at beyond exact search [new index: 0.95].")
    ] = None,
    exact_up_to: Annotated[
        int | None, typer.Option(help="Search exactly up to so many pictures [new index: 200000].", min=0)
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads; PyTorch's number by default.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Embed pictures and add them to an index; what is in already is skipped, by content.

    Give the same command again after an interruption, or when pictures were added.
    """
    from levelfield import index as room

    if remove:
        _remove(out, remove)
        return
    if source is None or model is None:
        raise UsageError("levelfield index needs pictures and --model; levelfield index --help shows how")
    from levelfield.embedders import load_embedder

    embedder = load_embedder(model)
    entries = _entries(source, root=root, options=option or [], seen=embedder.card.preprocessing)
    with _progress(quiet=quiet or as_json) as show:
        if out.startswith(("postgresql://", "postgres://")):
            from levelfield.index.postgres import PostgresIndex

            store = PostgresIndex(out, model=embedder.card)
            room.check_same_model(store.model, embedder.card, out)
            outcome = room.add_pictures(store, embedder, entries, threads=threads, report=show)
            store.finish()
            held, how = len(store), "HNSW of pgvector"
        else:
            with room.writing(
                out,
                model,
                memory=None if memory is None else int(memory * 1e9),
                recall=recall,
                exact_up_to=exact_up_to,
            ) as local:
                outcome = room.add_pictures(local, embedder, entries, threads=threads, report=show)
                local.finish()
                held, how = len(local), room.describe(local)
    _say(outcome, out, held=held, how=how, as_json=as_json)


def _remove(out: str, names: list[str]) -> None:
    from levelfield import index as room

    if out.startswith(("postgresql://", "postgres://")):
        from levelfield.index.postgres import PostgresIndex

        store = PostgresIndex(out)
        removed, held = sum(store.remove(name) for name in names), len(store)
    else:
        with room.changing(out) as local:
            removed, held = sum(local.remove(name) for name in names), len(local)
            local.finish()
    if not removed:
        raise UsageError(f"{out} holds no picture {names[0]}; give its path or the folder as it was indexed")
    typer.echo(f"{removed} pictures removed, {held} left in {out}")


def _entries(source: str, *, root: str | None, options: list[str], seen: Preprocessing) -> Iterator[Entry]:
    from levelfield import data
    from levelfield import index as room
    from levelfield.cli.data import parse_options as dataset_options
    from levelfield.data import store, transforms

    if root is None and not options:
        if Path(source).is_dir():
            return room.pictures_in_folder(source)
        if source.endswith(".csv"):
            return room.pictures_in_csv(source)
        if "/" in source and not source.startswith("hf:"):
            raise UsageError(f"there is no folder or CSV file {source}; check the path")
    dataset = data.load(source, **dataset_options(options), **({} if root is None else {"root": root}))
    wanted = transforms.create(seen.transform, train=False, **seen.options)
    served = store.serve(dataset, wanted)
    return room.pictures_in_dataset(dataset, pixels=None if served is dataset else served)


def _say(outcome: Outcome, out: str, *, held: int, how: str, as_json: bool) -> None:
    if as_json:
        facts = {
            "index": out,
            "pictures": held,
            "added": outcome.added,
            "known": outcome.known,
            "moved": outcome.moved,
            "replaced": outcome.replaced,
            "unreadable": [{"name": name, "reason": reason} for name, reason in outcome.unreadable],
            "search": how,
        }
        typer.echo(json.dumps(facts, indent=2))
    else:
        for name, reason in outcome.unreadable:
            shown = printable(" ".join(name.split()))
            typer.echo(f"skipped {reason if shown in reason else f'{shown}: {reason}'}", err=True)
        moved = f", {outcome.moved} moved" if outcome.moved else ""
        replaced = f", {outcome.replaced} replaced" if outcome.replaced else ""
        typer.echo(
            f"{outcome.added} pictures added, {outcome.known} were in already{moved}{replaced}, "
            f"{len(outcome.unreadable)} unreadable; {out} holds {held} pictures ({how})"
        )
    if not outcome.seen:
        raise UsageError("no pictures were found; name a folder that holds some, a CSV file or a dataset")
    if not held:
        raise RunError(f"none of {outcome.seen} pictures can be read; the first: {outcome.unreadable[0][1]}")


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[Outcome], None]]:
    if quiet:
        yield lambda outcome: None
        return
    from rich.console import Console
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading pictures", total=None)
        yield lambda done: bar.update(
            task, description=f"{done.added} added, {done.known} known, {len(done.unreadable)} unreadable"
        )
