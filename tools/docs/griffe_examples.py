"""Our docstrings end in ``Example:``, which Google's style calls ``Examples:``; both are shown as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

HEADING = re.compile(r"^(\s*)Example:$", re.MULTILINE)


class Examples(griffe.Extension):
    """Renames the section before it is read."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Called for every function, class and module."""
        if obj.docstring is not None:
            obj.docstring.value = HEADING.sub(r"\1Examples:", obj.docstring.value)
