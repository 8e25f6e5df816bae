"""Errors for users: one line each, with the problem and the remedy."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class LevelfieldError(Exception):
    """Base class of the errors that are printed as one line, without a traceback.

    Example:
        >>> str(LevelfieldError("a file name with\\na line break"))
        'a file name with a line break'
    """

    exit_code = 1

    def __init__(self, message: str = "") -> None:
        super().__init__(printable(mask_password(" ".join(message.split()))))


class UsageError(LevelfieldError, ValueError):
    """Invalid request, such as a wrong name, value, path or file."""

    exit_code = 2


class RunError(LevelfieldError):
    """Valid request that failed while it was executed. Finished work is kept."""


class LockedTestSetError(RunError):
    """Attempt to read the test set before the selection was frozen."""


def printable(text: str) -> str:
    """Return ``text`` with control characters and undecodable bytes escaped.

    File names may contain line breaks, terminal color codes and bytes that are not UTF-8.

    Example:
        >>> print(printable("caf\\udce9 \\x1b[31m.png"))
        caf\\udce9 \\x1b[31m.png
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def mask_password(text: str) -> str:
    """Return ``text`` with the passwords of all addresses in it replaced by ``***``.

    Example:
        >>> mask_password("cannot reach postgresql://me:secret@host/images?password=secret")
        'cannot reach postgresql://me:***@host/images?password=***'
    """
    # a path joins slashes: one is enough
    text = re.sub(r"(\w\w://?[^\s:/?#@]*):\S*@", r"\1:***@", text)
    return re.sub(r"(?i)\b((?:ssl)?password|passfile|passwd|pwd)=(?:'[^']*'|[^&\s]+)", r"\1=***", text)


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return the end of an error message: the closest known name, else the list of known names, else "".

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
