"""Names of the plug-ins that are part of levelfield.

Registries are global. Plug-ins that one test loads stay there for the tests after it, so a test that checks
all built-in plug-ins must ask for these.
"""

from __future__ import annotations

from typing import Any

from levelfield import losses, methods
from levelfield.core.registry import Registry


def built_in_names(registry: Registry[Any, Any]) -> list[str]:
    """Return the names that levelfield itself registers, sorted."""
    return [name for name in registry.names() if registry[name].target.__module__.startswith("levelfield.")]


def built_in_methods() -> list[str]:
    """Return the names of all methods of levelfield: its methods and its losses, sorted."""
    return sorted({*built_in_names(methods.registry), *built_in_names(losses.registry)})
