"""``levelfield data shift``: splits with growing shift between training and test classes."""

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


def shift(
    name: Name,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="Output directory; one CSV file per level.")],
    root: RootOption = None,
    option: SetOption = None,
    levels: Annotated[int, typer.Option(min=1, help="Number of splits in addition to the official one.")] = 5,
    trunk: TrunkOption = TRUNK,
    weights: WeightsOption = WEIGHTS,
    transform: TransformOption = TRANSFORM,
    quiet: Quiet = False,
) -> None:
    """Write splits with growing shift between training and test classes (after ooDML)."""
    import numpy as np

    from levelfield.core.files import write_text
    from levelfield.data.shift import make_shifted_splits

    with task_progress(quiet=quiet) as progress:
        found = load_features(
            name, root, option, trunk=trunk, weights=weights, transform=transform, progress=progress
        )
    splits = make_shifted_splits(
        found.features.astype(np.float64), found.dataset.labels, found.is_test, levels=levels
    )
    for level, split in enumerate(splits):
        file = out / f"level-{level}.csv"
        write_text(file, found.to_csv(split.is_test))
        typer.echo(f"{file}: {split.swaps} swaps, Frechet distance {split.distance:.2f}")
