"""Check that a version can be released, and print its notes.

    python tools/release.py check v0.2.0     # version, citation, changelog and tag agree
    python tools/release.py notes v0.2.0     # the section of CHANGELOG.md

The version is in ``pyproject.toml``, ``levelfield.__version__`` and ``CITATION.cff``. The script reads files
only, so that it runs before anything is installed.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECTION = re.compile(
    r"^## (\d+\.\d+\.\d+) \((\d{4}-\d{2}-\d{2})\)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL
)


def versions(root: Path = ROOT) -> dict[str, str]:
    """Return the version that each file states; an empty string where there is none."""
    package = (root / "src" / "levelfield" / "__init__.py").read_text(encoding="utf-8")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    return {
        "pyproject.toml": tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"],
        "levelfield.__version__": _first(r'^__version__ = "(.+)"$', package),
        "CITATION.cff": _first(r"^version: (.+)$", citation),
    }


def sections(root: Path = ROOT) -> dict[str, tuple[str, str]]:
    """Return the date and the text of each released version in the changelog, newest first."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    return {version: (date, notes.strip()) for version, date, notes in SECTION.findall(text)}


def unreleased(root: Path = ROOT) -> list[str]:
    """Return the lines of the changelog that belong to no release yet."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = text.partition("\n## Unreleased\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("- ")]


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """Return what stops a release of this tag, one sentence each."""
    wanted = tag.removeprefix("v")
    found = [
        f"{file} says {version or 'no version'}, not {wanted}; change it"
        for file, version in versions(root).items()
        if version != wanted
    ]
    released = sections(root)
    if wanted not in released:
        found.append(f'CHANGELOG.md has no section "## {wanted} (YYYY-MM-DD)"; write the notes')
        return found
    dated = _first(r'^date-released: "?([\d-]+)"?$', (root / "CITATION.cff").read_text(encoding="utf-8"))
    if dated != released[wanted][0]:
        found.append(f"CITATION.cff is dated {dated}, CHANGELOG.md {released[wanted][0]}; use one date")
    return found


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    match arguments:
        case ["check", tag]:
            found = problems(tag)
            if waiting := unreleased():
                found.append(
                    f'CHANGELOG.md has {len(waiting)} lines under "Unreleased"; move them to a version'
                )
            print("\n".join(found) or f"{tag} can be released")
            return 1 if found else 0
        case ["notes", tag]:
            if tag.removeprefix("v") not in sections():
                print(f"CHANGELOG.md has no section for {tag}", file=sys.stderr)
                return 1
            print(sections()[tag.removeprefix("v")][1])
            return 0
        case _:
            print("usage: python tools/release.py check|notes vX.Y.Z", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
