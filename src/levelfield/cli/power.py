"""``levelfield power``: detectable differences of a budget, and the budget that a difference needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.run import OutOption, SetOption


def power(
    experiment: Annotated[
        Path,
        typer.Argument(help="Experiment file or experiment directory.", show_default=False),
    ],
    *,
    difference: Annotated[
        float | None,
        typer.Option(help="Difference to detect, in table units: 0.5 is half a point."),
    ] = None,
    chance: Annotated[float, typer.Option(help="Probability of detecting it (statistical power).")] = 0.8,
    metric: Annotated[str | None, typer.Option(help="Metric. Defaults to the selection metric.")] = None,
    setting: Annotated[
        str, typer.Option(help="Embedding setting: concatenated or separated.")
    ] = "concatenated",
    overrides: SetOption = None,
    out: OutOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON only.")] = False,
) -> None:
    """Estimate from records the smallest detectable difference, and the budget for a given one."""
    from levelfield import api
    from levelfield.reports import power_text

    directory = _experiment_directory(experiment, tuple(overrides or ()), out)
    found = api.power(directory, difference=difference, chance=chance, metric=metric, setting=setting)
    if as_json:
        print(json.dumps(found.as_dict(), indent=2))
    else:
        print(power_text(found, found.metric_info, chance=chance))


def _experiment_directory(experiment: Path, overrides: tuple[str, ...], out: Path | None) -> Path:
    if experiment.is_dir():
        return experiment
    from levelfield.config import Experiment
    from levelfield.core.errors import UsageError
    from levelfield.records import default_directory

    directory = out or default_directory(Experiment.load(experiment, overrides).name)
    if not (directory / "experiment.json").exists():
        raise UsageError(
            f"{directory} holds no records to estimate power from; run `levelfield run {experiment}` first, "
            "for example with few trials and two reruns"
        )
    return directory
