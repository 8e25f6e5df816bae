"""Option ``--trust`` of the commands that read model cards, indexes and records."""

from __future__ import annotations

from typing import Annotated

import typer

TrustOption = Annotated[
    bool,
    typer.Option("--trust", help="Run code that the files name: hub: and hf-hub: trunks, and plug-ins."),
]
