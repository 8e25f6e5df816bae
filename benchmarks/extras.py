"""What each extra costs on disk, beyond what the package needs anyway: the table of docs/install.md.

``python benchmarks/extras.py`` adds up the installed files of an extra's packages and of theirs.
"""

from __future__ import annotations

from importlib import metadata

from packaging.requirements import Requirement


def closure(names: set[str], extra: str = "") -> set[str]:
    """The installed packages that ``names`` need, they included."""
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
    """The size of all files that these packages installed."""
    total = 0
    for name in names:
        for file in metadata.distribution(name).files or ():
            path = file.locate()
            if path.exists():
                total += path.stat().st_size
    return total / 1e6


def wanted(extra: str) -> set[str]:
    """The packages that levelfield itself names: for everybody (""), or for an extra."""
    found = set()
    for text in metadata.requires("levelfield") or ():
        requirement = Requirement(text)
        plain = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if plain if not extra else (not plain and requirement.marker.evaluate({"extra": extra})):
            found.add(requirement.name)
    return found - {"levelfield"}


def main() -> None:
    """Print the table."""
    core = closure(wanted(""))
    torch_part = closure({"torch"})
    print("| extra | packages more | MB more |\n|---|---|---|")
    print(
        f"| (none) | {len(core)} | {megabytes(core):,.0f}, "
        f"of which torch and what it needs {megabytes(torch_part):,.0f} |"
    )
    extras = metadata.metadata("levelfield").get_all("Provides-Extra") or []
    for extra in extras:
        more = closure(wanted(extra)) - core
        if extra != "dev":
            print(f"| `{extra}` | {len(more)} | {megabytes(more):,.0f} |")


if __name__ == "__main__":
    main()
