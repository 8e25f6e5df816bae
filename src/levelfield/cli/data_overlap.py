"""``levelfield data overlap``: classes that may stand on both sides of the border under two names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.data import Name, Quiet, progress_bar
from levelfield.cli.data_features import (
    TRANSFORM,
    TRUNK,
    WEIGHTS,
    RootOption,
    SetOption,
    TransformOption,
    TrunkOption,
    WeightsOption,
    described,
)


def overlap(
    name: Name,
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write a list for `csv` without those training classes."),
    ] = None,
    root: RootOption = None,
    option: SetOption = None,
    share: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="Of a test class's images, from which on it is named.")
    ] = 0.5,
    trunk: TrunkOption = TRUNK,
    weights: WeightsOption = WEIGHTS,
    transform: TransformOption = TRANSFORM,
    quiet: Quiet = False,
) -> None:
    """Name test classes whose images look like one training class: look at them; exit code 1 on any."""
    import numpy as np

    from levelfield.data.overlap import overlapping_classes
    from levelfield.files import write_text

    with progress_bar(quiet=quiet) as progress:
        found = described(
            name, root, option, trunk=trunk, weights=weights, transform=transform, progress=progress
        )
    labels, names = found.dataset.labels, found.dataset.class_names
    pairs = overlapping_classes(found.features, labels, found.is_test, share=share)
    for pair in pairs:
        typer.echo(
            f"{names[pair.test]} (test) looks like {names[pair.train]} (train): {100 * pair.share:.0f}% of "
            f"its images are nearer to it than to their own class, mean cosine {pair.similarity:.2f}"
        )
    if not pairs:
        typer.echo(f"{name}: no test class looks like a training class")
    if out is not None:
        doubtful = np.isin(labels, [pair.train for pair in pairs]) & ~found.is_test
        write_text(out, found.listing(found.is_test, ~doubtful))
        typer.echo(f"{out}: {int((~doubtful).sum())} of {len(labels)} images")
    if pairs:
        raise typer.Exit(1)
