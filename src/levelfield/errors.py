"""The errors a user sees: one line each, naming what is wrong and the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class LevelfieldError(Exception):
    """Base of every error that is reported as one line, without a traceback.

    Example:
        >>> str(LevelfieldError("a file name with\\na line break"))
        'a file name with a line break'
    """

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(" ".join(message.split())))


class UsageError(LevelfieldError, ValueError):
    """The request itself is wrong: a name, a value, a path, a file that does not fit."""

    exit_code = 2


class RunError(LevelfieldError):
    """The request was right, but carrying it out failed; what was finished before is kept."""


class LockedTestSetError(RunError):
    """Code tried to read the test set before the selection was frozen."""


def printable(text: str) -> str:
    """``text`` with everything escaped that a terminal would act on, or that has no encoding.

    Names of files are other people's: they may hold line breaks, colours, and bytes that are no UTF-8.

    Example:
        >>> print(printable("caf\\udce9 \\x1b[31m.png"))
        caf\\udce9 \\x1b[31m.png
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """A suggestion to append to an error, or the list of choices, or nothing.

    Example:
        >>> did_you_mean("tripplet", ["triplet", "margin"])
        '; did you mean "triplet"?'
    """
    choices = sorted(known)
    near = difflib.get_close_matches(wrong, choices, n=1, cutoff=0.6)
    if near:
        return f'; did you mean "{near[0]}"?'
    if not choices:
        return ""
    shown = ", ".join(choices[:12]) + (", ..." if len(choices) > 12 else "")
    return f"; choose from {shown}"
