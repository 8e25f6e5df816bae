"""``levelfield demo``: a complete comparison on the built-in dataset."""

from __future__ import annotations

from levelfield.cli.run import JsonOption, OutOption, QuietOption, SetOption


def demo(
    overrides: SetOption = None,
    out: OutOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare three methods on the built-in dataset Glyphs, in a few minutes."""
    from levelfield.cli._show import run_and_show
    from levelfield.config import build

    values = {"name": "demo", "preset": "demo"}
    experiment = build(values, tuple(overrides or ()), origin="demo")
    run_and_show(experiment, out, quiet=quiet, as_json=as_json)
