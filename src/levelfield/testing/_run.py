"""Common code of the contract checks: finding the plug-in, running checks, reporting problems."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import torch

from levelfield.core.errors import UsageError
from levelfield.core.registry import CardT, Registry, RegistryEntry

Subject = TypeVar("Subject")
Problems: TypeAlias = Iterable[str]
Checks: TypeAlias = Mapping[str, Callable[[Subject], Problems]]
"""Checks by title. A title says what holds if the check passes, such as "the gradient is finite"."""


@dataclass(frozen=True)
class CheckedPlugin(Generic[CardT]):
    """Plug-in to check; ``entry`` is None if it is not registered."""

    name: str
    target: Callable[..., Any]
    entry: RegistryEntry[CardT] | None


def find_plugins(
    registry: Registry[CardT, Any], plugin: str | Path | Callable[..., Any]
) -> list[CheckedPlugin[CardT]]:
    """Return the plug-ins to check.

    Args:
        registry: Registry of the kind of plug-in.
        plugin: Registered name, class or function, or path of a Python file (``Path``, or text that ends in
            .py). All plug-ins of the registry's kind that the file registers are returned.

    Example:
        >>> from levelfield import losses
        >>> [plugin.name for plugin in find_plugins(losses.registry, losses.Triplet)]
        ['triplet']
    """
    if isinstance(plugin, Path) or (isinstance(plugin, str) and plugin.endswith(".py")):
        entries = registry.load_file(plugin)
        if not entries:
            raise UsageError(f"{plugin} registers no {registry.kind}; decorate the plug-in with `register`")
        return [CheckedPlugin(entry.name, entry.target, entry) for entry in entries]
    if isinstance(plugin, str):
        entry = registry[plugin]
        return [CheckedPlugin(plugin, entry.target, entry)]
    found = registry.find_target(plugin)
    name = getattr(plugin, "__name__", str(plugin)) if found is None else found.name
    return [CheckedPlugin(name, plugin, found)]


def run_checks(what: str, subject: Subject, checks: Checks[Subject]) -> None:
    """Run all checks and print one line per check; raise AssertionError that lists all problems.

    A check that raises counts as a problem; the other checks still run.

    Example:
        >>> checks = {"it is odd": lambda n: [] if n % 2 else [f"{n} is even"], "it is small": lambda n: []}
        >>> run_checks("number 3", 3, checks)
        number 3
          ok: it is odd
          ok: it is small
        >>> run_checks("number 4", 4, checks)
        Traceback (most recent call last):
        ...
        AssertionError: number 4 fails 1 of 2 checks:
        - 4 is even
    """
    print(what)
    problems: list[str] = []
    failed = 0
    for title, check in checks.items():
        found: list[str] = []
        try:
            found.extend(check(subject))
        except Exception as error:
            found.append(f"{title}: the check raises {type(error).__name__}: {error}")
        print(f"  {'failed' if found else 'ok'}: {title}")
        failed += bool(found)
        problems += found
    if problems:
        listed = "\n".join(f"- {problem}" for problem in problems)
        raise AssertionError(f"{what} fails {failed} of {len(checks)} checks:\n{listed}")


@contextmanager
def watch_global_randomness(problems: list[str]) -> Iterator[None]:
    """Append to ``problems`` if the code in the block draws from a global random generator."""
    before = _global_state()
    yield
    if _global_state() != before:
        problems.append("it draws from a global random generator; use its own generator or seed")


def _global_state() -> bytes:
    numpys = np.random.get_state()  # noqa: NPY002 - the global generator is what is watched
    return pickle.dumps((torch.get_rng_state().tolist(), numpys, random.getstate()))
