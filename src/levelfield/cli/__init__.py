"""The command line: one small file per verb, no logic of its own.

Nothing heavy is imported until a verb runs, so that ``levelfield --help`` answers at once.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point: errors meant for people become one line on stderr and an exit code."""
    from levelfield.cli._app import run_app

    sys.exit(run_app(sys.argv[1:]))
