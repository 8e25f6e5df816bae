"""Keep what an arena found before it is measured again with other settings.

    python tools/reality_check/keep_earlier.py results/NAME results/studies/NAME-earlier.json

The page puts it beside what the new records say.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from arenas import Arena
from repeats import Earlier

from levelfield.compare import weigh


def main() -> None:
    """Read the command line and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arena", type=Path, help="an archive in results/")
    parser.add_argument("file", type=Path, help="in results/studies, NAME-earlier.json")
    options = parser.parse_args()
    Earlier.of(Arena(weigh(options.arena))).write(options.file)


if __name__ == "__main__":
    main()
