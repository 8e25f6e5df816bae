"""Lazy exports: names of a package that are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def lazy_exports(
    package: str, modules: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package whose names are imported on first use.

    Args:
        package: Name of the package; pass ``__name__``.
        modules: Full module name to the names that it provides. A name that equals the last part of its
            module's name stands for the module itself.

    Example:
        >>> find, names = lazy_exports("levelfield.core", {"levelfield.core.seeds": ["seeds", "seed_for"]})
        >>> names()
        ['seed_for', 'seeds']
        >>> find("seed_for").__name__
        'seed_for'
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(homes[name])
        value = module if homes[name].rpartition(".")[2] == name else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        known = vars(sys.modules[package])
        return sorted({*homes, *(name for name in known.get("__all__", ()))})

    return find, names
