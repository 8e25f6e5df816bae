"""``levelfield demo``: a complete comparison on the embedded dataset."""

from __future__ import annotations

from levelfield.cli.run import JsonOption, OutOption, QuietOption, SetOption


def demo(
    overrides: SetOption = None,
    out: OutOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare three methods on Glyphs, from search to report; needs no data and a few minutes."""
    from levelfield.cli._show import carry_out
    from levelfield.config import build

    values = {"name": "demo", "preset": "demo"}
    experiment = build(values, tuple(overrides or ()), origin="demo")
    carry_out(experiment, out, quiet=quiet, as_json=as_json)
