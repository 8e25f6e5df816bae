"""Disk space of each extra, beyond the required packages: the table of docs/install.md.

``python tools/docs/extras.py`` adds up the installed files of an extra's packages and their dependencies.
"""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement


def closure(names: set[str], extra: str = "") -> set[str]:
    """Return ``names`` and their installed dependencies."""
    found: set[str] = set()
    waiting = [(name, {""}) for name in names]
    while waiting:
        name, extras = waiting.pop()
        key = name.lower().replace("_", "-")
        if key in found:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        found.add(key)
        for text in distribution.requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": each}) for each in extras):
                waiting.append((requirement.name, {"", *requirement.extras}))
    return found


def megabytes(names: set[str]) -> float:
    """Return the size of the installed files of these packages."""
    total = 0
    for name in names:
        for file in metadata.distribution(name).files or ():
            path = Path(file.locate())
            if path.exists():
                total += path.stat().st_size
    return total / 1e6


def wanted(extra: str) -> set[str]:
    """Return the direct dependencies of levelfield: required ones for "", else those of an extra."""
    found = set()
    for text in metadata.requires("levelfield") or ():
        requirement = Requirement(text)
        marker = requirement.marker
        plain = marker is None or marker.evaluate({"extra": ""})
        of_extra = marker is not None and marker.evaluate({"extra": extra})
        if plain if not extra else (not plain and of_extra):
            found.add(requirement.name)
    return found - {"levelfield"}


def main() -> None:
    """Print the table."""
    core = closure(wanted(""))
    torch_part = closure({"torch"})
    print("| extra | packages more | MB more |\n|---|---|---|")
    print(
        f"| (none) | {len(core)} | {megabytes(core):,.0f}, "
        f"of which torch and its dependencies {megabytes(torch_part):,.0f} |"
    )
    extras = metadata.metadata("levelfield").get_all("Provides-Extra") or []
    for extra in extras:
        more = closure(wanted(extra)) - core
        if extra != "dev":
            print(f"| `{extra}` | {len(more)} | {megabytes(more):,.0f} |")


if __name__ == "__main__":
    main()
