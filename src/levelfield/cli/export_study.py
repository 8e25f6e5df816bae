"""``levelfield export-study``: searches as Optuna studies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export_study(
    directories: Annotated[list[Path], typer.Argument(help="Experiment directories.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="SQLite file to write.")] = Path("study.db"),
) -> None:
    """Export every search as an Optuna study, for the Optuna dashboard and plots."""
    from levelfield.analysis.optuna_studies import export_study as write

    for study in write(directories, out):
        print(f"{study.name}: {study.trials} trials")
    print(f"View with: optuna-dashboard sqlite:///{out}")
