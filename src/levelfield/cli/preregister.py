"""``levelfield preregister``: plan of an experiment, written before it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli.run import FileArgument, SetOption


def preregister(
    file: FileArgument,
    overrides: SetOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="New file for the plan. Defaults to NAME-plan.json.")
    ] = None,
) -> None:
    """Write the plan of an experiment with a digest: methods, budgets, seeds, data, code; trains nothing."""
    from levelfield import api
    from levelfield.config import Experiment

    experiment = Experiment.load(file, tuple(overrides or ()))
    target = out or Path(f"{experiment.name}-plan.json")
    plan = api.preregister(experiment, target)
    budget = ", ".join(f"{count} {name}" for name, count in plan.budget.items())
    print(f"{target}: {len(plan.methods)} methods, {budget}, seed {plan.seed}")
    print(f"digest {plan.digest}")
    print(f"Publish the file or the digest now, then: levelfield run {file} --plan {target}")
