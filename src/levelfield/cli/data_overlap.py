"""``levelfield data overlap``: training classes that may be the same as a test class."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli._progress import task_progress
from levelfield.cli.data import Name, Quiet
from levelfield.cli.data_features import (
    TRANSFORM,
    TRUNK,
    WEIGHTS,
    RootOption,
    SetOption,
    TransformOption,
    TrunkOption,
    WeightsOption,
    load_features,
)


def overlap(
    name: Name,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write a list for the dataset csv without these training classes."),
    ] = None,
    root: RootOption = None,
    option: SetOption = None,
    share: Annotated[
        float,
        typer.Option(
            min=0.01, max=1.0, help="Report classes with at least this share of overlapping images."
        ),
    ] = 0.5,
    trunk: TrunkOption = TRUNK,
    weights: WeightsOption = WEIGHTS,
    transform: TransformOption = TRANSFORM,
    quiet: Quiet = False,
) -> None:
    """Report test classes whose images resemble one training class; exit code 1 on any."""
    import numpy as np

    from levelfield.core.files import write_text
    from levelfield.data.overlap import find_overlapping_classes

    with task_progress(quiet=quiet) as progress:
        found = load_features(
            name, root, option, trunk=trunk, weights=weights, transform=transform, progress=progress
        )
    labels, names = found.dataset.labels, found.dataset.class_names
    pairs = find_overlapping_classes(found.features, labels, found.is_test, share=share)
    for pair in pairs:
        typer.echo(
            f"{names[pair.test]} (test) resembles {names[pair.train]} (train): {100 * pair.share:.0f}% of "
            f"its images are nearer to it than to their own class, mean cosine {pair.similarity:.2f}"
        )
    if not pairs:
        typer.echo(f"{name}: no test class resembles a training class")
    if out is not None:
        doubtful = np.isin(labels, [pair.train for pair in pairs]) & ~found.is_test
        write_text(out, found.to_csv(found.is_test, ~doubtful))
        typer.echo(f"{out}: {int((~doubtful).sum())} of {len(labels)} images")
    if pairs:
        raise typer.Exit(1)
