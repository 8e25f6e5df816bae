"""``levelfield index``: add images to an index."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli._progress import task_progress
from levelfield.cli._trust import TrustOption
from levelfield.core.errors import RunError, UsageError, mask_password, printable

if TYPE_CHECKING:
    from levelfield.retrieval.embedders import Preprocessing
    from levelfield.retrieval.index import SourceImage, UpdatedIndex


def index(  # noqa: PLR0917 - a command's options are its parameters
    source: Annotated[
        str | None,
        typer.Argument(help="Image folder, CSV file (path, label) or dataset name."),
    ] = None,
    model: Annotated[Path | None, typer.Option(help="Model directory.", show_default=False)] = None,
    out: Annotated[
        str, typer.Option("--out", "-o", help="Index directory, or postgresql://user@host/database.")
    ] = "index",
    root: Annotated[str | None, typer.Option(help="Directory of the dataset, if it needs one.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--set", help="Option of the dataset, as key=value (repeatable).")
    ] = None,
    metadata: Annotated[
        list[Path] | None,
        typer.Option(help="CSV file with the column path; its other columns become filters (repeatable)."),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(help="Remove this image, or all images of this folder, instead of adding (repeatable)."),
    ] = None,
    export: Annotated[
        str | None,
        typer.Option(help="Write the index as files for qdrant, milvus or pgvector, instead of adding."),
    ] = None,
    export_to: Annotated[Path, typer.Option(help="Empty or missing directory for --export.")] = Path(
        "index-export"
    ),
    memory: Annotated[
        float | None, typer.Option(help="Maximum GB for approximate search. A new index has 4.", min=0.001)
    ] = None,
    recall: Annotated[
        float | None, typer.Option(help="Target recall at 10 of approximate search. A new index has 0.95.")
    ] = None,
    exact_up_to: Annotated[
        int | None,
        typer.Option(help="Maximum number of images for exact search. A new index has 200000.", min=0),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Number of threads. Defaults to PyTorch's number.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress.")] = False,
    trust: TrustOption = False,
) -> None:
    """Embed images and add them to an index. Known images are skipped, compared by content.

    Run the same command again after an interruption, or to add new images.
    """
    from levelfield.retrieval.embedders import load_embedder
    from levelfield.retrieval.index import remove_images, update_index

    if remove:
        removed, left = remove_images(out, remove)
        if not removed:
            raise UsageError(f"{out} has no image {remove[0]}; give the path or folder as it was indexed")
        typer.echo(f"{removed} images removed, {left} left in {mask_password(out)}")
        return
    if export is not None:
        _export(out, export, export_to)
        return
    if source is None or model is None:
        raise UsageError("levelfield index needs images and --model; see levelfield index --help")
    embedder = load_embedder(model, trust=trust)
    images = _open_source(source, root=root, options=option or [], preprocessing=embedder.card.preprocessing)
    with task_progress(quiet=quiet or as_json) as progress:
        progress.status("reading images")
        updated = update_index(
            out,
            model,
            embedder,
            images,
            memory=None if memory is None else int(memory * 1e9),
            recall=recall,
            exact_up_to=exact_up_to,
            threads=threads,
            metadata=metadata or (),
            progress_callback=lambda result: progress.status(
                f"{result.added} added, {result.known} known, {len(result.unreadable)} unreadable"
            ),
        )
    _show(updated, out, as_json=as_json)


def _export(index: str, database: str, directory: Path) -> None:
    from levelfield.retrieval.index import open_store
    from levelfield.retrieval.index.exchange import export_index

    store = open_store(index)
    try:
        count = export_index(store, directory, database)
    finally:
        store.close()
    typer.echo(f"{count} images written to {directory} for {database}; docs/search.md says how to load them")


def _open_source(
    source: str, *, root: str | None, options: list[str], preprocessing: Preprocessing
) -> Iterator[SourceImage]:
    """Return the images of a folder, CSV file or dataset."""
    from levelfield import data
    from levelfield.cli.data import parse_options
    from levelfield.data import store, transforms
    from levelfield.retrieval.index import images_from_csv, images_from_dataset, images_from_folder

    if root is None and not options:
        if Path(source).is_dir():
            return images_from_folder(source)
        if source.endswith(".csv"):
            return images_from_csv(source)
        if "/" in source and not source.startswith("hf:"):
            raise UsageError(f"there is no folder or CSV file {source}; check the path")
    dataset = data.load(source, **parse_options(options), **({} if root is None else {"root": root}))
    wanted = transforms.create(preprocessing.transform, train=False, **preprocessing.options)
    served = store.use_store(dataset, wanted)
    return images_from_dataset(dataset, pixels=None if served is dataset else served)


def _show(updated: UpdatedIndex, out: str, *, as_json: bool) -> None:
    result, size = updated.result, updated.size
    if as_json:
        facts = {
            "index": mask_password(out),
            "pictures": size,
            "added": result.added,
            "known": result.known,
            "moved": result.moved,
            "replaced": result.replaced,
            "unreadable": [{"name": name, "reason": reason} for name, reason in result.unreadable],
            "search": updated.search,
            "described": updated.described,
            "undescribed": updated.undescribed,
        }
        typer.echo(json.dumps(facts, indent=2))
    else:
        for name, reason in result.unreadable:
            shown = printable(" ".join(name.split()))
            typer.echo(f"skipped {reason if shown in reason else f'{shown}: {reason}'}", err=True)
        moved = f", {result.moved} moved" if result.moved else ""
        replaced = f", {result.replaced} replaced" if result.replaced else ""
        typer.echo(
            f"{result.added} images added, {result.known} known{moved}{replaced}, "
            f"{len(result.unreadable)} unreadable; {mask_password(out)} holds {size} images "
            f"({updated.search})"
        )
        if updated.described or updated.undescribed:
            lost = f"; images that are not in the index: {updated.undescribed}" if updated.undescribed else ""
            typer.echo(f"metadata of {updated.described} images stored{lost}")
    if not result.seen:
        raise UsageError("no images were found; give a folder with images, a CSV file or a dataset")
    if not size:
        raise RunError(
            f"none of {result.seen} images can be read; the first error: {result.unreadable[0][1]}"
        )
