"""From a list of checks to one error that names everything that is wrong."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch

Subject = TypeVar("Subject")
Problems = Iterable[str]


def raise_problems(what: str, subject: Subject, checks: Iterable[Callable[[Subject], Problems]]) -> None:
    """Run all checks; AssertionError with every problem found, or nothing.

    A check that raises is a problem too: the others still run.

    Example:
        >>> raise_problems("this", 3, [lambda number: ["it is odd"] if number % 2 else []])
        Traceback (most recent call last):
        ...
        AssertionError: this breaks its contract:
        - it is odd
    """
    problems: list[str] = []
    for check in checks:
        try:
            problems.extend(check(subject))
        except Exception as error:
            title = check.__name__.strip("_").replace("_", " ")
            problems.append(f"{title}: raises {type(error).__name__}: {error}")
    if problems:
        raise AssertionError(f"{what} breaks its contract:\n" + "\n".join(f"- {each}" for each in problems))


@contextmanager
def watch_global_randomness(problems: list[str]) -> Iterator[None]:
    """Note it in ``problems`` if the code inside draws from a global generator."""
    before = _state()
    yield
    if _state() != before:
        problems.append("it draws from a global random generator; take a generator or a seed instead")


def _state() -> bytes:
    numpys = np.random.get_state()  # noqa: NPY002 - the global generator is what is watched
    return pickle.dumps((torch.get_rng_state().tolist(), numpys, random.getstate()))
