"""Store the results of an arena before it is measured again with other settings.

    python results/reality_check/keep_earlier.py results/NAME results/studies/NAME-earlier-BUDGET.json

The page shows them beside the new results.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from arenas import Arena
from dependence import Earlier
from levelfield.analysis import analyze


def main() -> None:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arena", type=Path, help="archive in results/")
    parser.add_argument("file", type=Path, help="output file, results/studies/NAME-earlier-BUDGET.json")
    options = parser.parse_args()
    Earlier.from_arena(Arena(analyze(options.arena))).write(options.file)


if __name__ == "__main__":
    main()
