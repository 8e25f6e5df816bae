"""``levelfield export``: the confirmed model of a method as a model directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli._trust import TrustOption
from levelfield.core.errors import UsageError


def export(
    directory: Annotated[
        Path,
        typer.Argument(
            help="Experiment directory, or a checkpoint of CLIP or SigLIP in open_clip's naming.",
            show_default=False,
        ),
    ],
    *,
    method: Annotated[
        str | None, typer.Option(help="Method to export. Defaults to the best one that was not beaten.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Model directory to write.")] = Path("model"),
    fold: Annotated[
        int | None, typer.Option(help="Export one fold's model. Defaults to all folds, concatenated.")
    ] = None,
    rerun: Annotated[int, typer.Option(help="Number of the rerun.", min=0)] = 0,
    root: Annotated[
        Path | None, typer.Option(help="Local directory of the dataset.", show_default=False)
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(help="Plug-in file that the experiment used (repeatable).")
    ] = None,
    false_accept_rate: Annotated[
        float, typer.Option(help="Maximum share of images without a match that are accepted as matches.")
    ] = 0.01,
    onnx: Annotated[Path | None, typer.Option(help="Also write the model to this ONNX file.")] = None,
    trunk: Annotated[
        str | None,
        typer.Option(help="Image tower of a checkpoint, as timm:NAME."),
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="tokenizer.json of a checkpoint.", show_default=False)
    ] = None,
    trust: TrustOption = False,
) -> None:
    """Write weights, preprocessing, scores and a match threshold to a model directory."""
    from levelfield import api
    from levelfield.retrieval.embedders import import_two_towers, load_embedder

    if directory.is_file():
        if trunk is None or tokenizer is None:
            raise UsageError(f"{directory} is a file; for a checkpoint give --trunk and --tokenizer too")
        card = import_two_towers(out, directory, trunk=trunk, tokenizer=tokenizer)
    else:
        card = api.export(
            directory,
            out,
            method=method,
            fold=fold,
            rerun=rerun,
            root=root,
            plugins=tuple(plugin or ()),
            false_accept_rate=false_accept_rate,
            trust=trust,
        )
    typer.echo(f"{out}: {card.name}, {card.parts} network(s), vectors of size {card.size}")
    for score in card.scores:
        interval = (
            "" if score.low is None or score.high is None else f" ({score.low:.4f} to {score.high:.4f})"
        )
        typer.echo(f"  {score.metric} {score.value:.4f}{interval}, {score.measured_on}")
    if card.threshold is not None:
        typer.echo(
            f"  a match has a similarity of at least {card.threshold.similarity:.4f}: at most "
            f"{100 * card.threshold.false_accept_rate:g}% false accepts, "
            f"{card.threshold.true_accept_rate:.1%} of matches found ({card.threshold.data})"
        )
    for note in card.notes:
        typer.echo(f"  note: {note}")
    if onnx is not None:
        from levelfield.retrieval.embedders.onnx import export_onnx

        difference = export_onnx(load_embedder(out, trust=trust), onnx)
        typer.echo(f"{onnx}: checked against PyTorch, vectors differ by at most {difference:.1e}")
