"""``levelfield data shift``: splits of a dataset in which train and test have less and less in common."""

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


def shift(
    name: Name,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the lists, one CSV per level.")],
    root: RootOption = None,
    option: SetOption = None,
    levels: Annotated[int, typer.Option(min=1, help="How many splits beyond the official one.")] = 5,
    trunk: TrunkOption = TRUNK,
    weights: WeightsOption = WEIGHTS,
    transform: TransformOption = TRANSFORM,
    quiet: Quiet = False,
) -> None:
    """Write splits of growing shift between train and test classes (after ooDML), as lists for `csv`."""
    import numpy as np

    from levelfield.data.shift import growing_shift
    from levelfield.files import write_text

    with progress_bar(quiet=quiet) as progress:
        found = described(
            name, root, option, trunk=trunk, weights=weights, transform=transform, progress=progress
        )
    splits = growing_shift(
        found.features.astype(np.float64), found.dataset.labels, found.is_test, levels=levels
    )
    for level, split in enumerate(splits):
        file = out / f"level-{level}.csv"
        write_text(file, found.listing(split.is_test))
        typer.echo(f"{file}: {split.swaps} swaps, Frechet distance {split.distance:.2f}")
