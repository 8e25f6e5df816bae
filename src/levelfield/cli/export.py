"""``levelfield export``: the confirmed model of a method as a folder to keep, publish and use."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    folder: Annotated[Path, typer.Argument(help="The folder of a finished experiment.", show_default=False)],
    *,
    method: Annotated[str, typer.Option(help="Which method's model.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The model folder.")] = Path("model"),
    fold: Annotated[
        int | None, typer.Option(help="One fold's model; all folds, concatenated, by default.")
    ] = None,
    rerun: Annotated[int, typer.Option(help="Which rerun's models.", min=0)] = 0,
    root: Annotated[
        Path | None, typer.Option(help="Where the dataset lies here.", show_default=False)
    ] = None,
    plugin: Annotated[
        list[Path] | None, typer.Option(help="A plug-in file that the experiment used (repeatable).")
    ] = None,
    false_accept_rate: Annotated[
        float, typer.Option(help="Share of pictures without a match that may find one all the same.")
    ] = 0.01,
    onnx: Annotated[Path | None, typer.Option(help="Also write the model as one ONNX file.")] = None,
) -> None:
    """Write weights, preprocessing, scores and a calibrated threshold to a model folder."""
    from levelfield.embedders import load_embedder
    from levelfield.protocol import export_model

    card = export_model(
        folder,
        out,
        method=method,
        fold=fold,
        rerun=rerun,
        root=root,
        plugins=tuple(plugin or ()),
        false_accept_rate=false_accept_rate,
    )
    typer.echo(f"{out}: {card.name}, {card.parts} network(s), vectors of {card.size} numbers")
    for score in card.scores:
        interval = (
            "" if score.low is None or score.high is None else f" ({score.low:.4f} to {score.high:.4f})"
        )
        typer.echo(f"  {score.metric} {score.value:.4f}{interval}, {score.measured_on}")
    if card.threshold is not None:
        typer.echo(
            f"  a match has a similarity of at least {card.threshold.similarity:.4f}: at most "
            f"{card.threshold.false_accept_rate:.1%} false accepts, {card.threshold.true_accept_rate:.1%} of "
            f"matches found ({card.threshold.data})"
        )
    for note in card.notes:
        typer.echo(f"  note: {note}")
    if onnx is not None:
        from levelfield.embedders.onnx import export_onnx

        difference = export_onnx(load_embedder(out), onnx)
        typer.echo(f"{onnx}: checked against PyTorch, vectors differ by at most {difference:.1e}")
