"""``levelfield power``: which difference a budget can tell, and which budget a difference needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.run import OutOption, SetOption


def power(
    experiment: Annotated[
        Path,
        typer.Argument(
            help="An experiment file, or a folder that `levelfield run` wrote.", show_default=False
        ),
    ],
    *,
    difference: Annotated[
        float | None,
        typer.Option(help="A difference you want to find, as tables print it: 0.5 is half a point."),
    ] = None,
    chance: Annotated[float, typer.Option(help="The chance of finding it.")] = 0.8,
    metric: Annotated[str | None, typer.Option(help="That of the selection by default.")] = None,
    setting: Annotated[str, typer.Option(help="concatenated or separated.")] = "concatenated",
    overrides: SetOption = None,
    out: OutOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON and nothing else.")] = False,
) -> None:
    """Estimate from the records at hand what reruns, searches and classes can tell apart."""
    import dataclasses

    from levelfield.compare import power_of, weigh
    from levelfield.reports import power_text

    evidence = weigh(_folder(experiment, tuple(overrides or ()), out), setting=setting, metric=metric)
    wanted = None if difference is None else difference / evidence.measure.scale
    found = power_of(evidence, difference=wanted, power=chance)
    if as_json:
        print(json.dumps(dataclasses.asdict(found), indent=2))
    else:
        print(power_text(found, evidence.measure, chance=chance))


def _folder(experiment: Path, overrides: tuple[str, ...], out: Path | None) -> Path:
    if experiment.is_dir():
        return experiment
    from levelfield.config import Experiment
    from levelfield.errors import UsageError

    folder = out or Path("runs") / Experiment.load(experiment, overrides).name
    if not (folder / "experiment.json").exists():
        raise UsageError(
            f"power is estimated from records, and {folder} holds none; give `levelfield run {experiment}` "
            "first, with few trials and two reruns if it is only for this"
        )
    return folder
