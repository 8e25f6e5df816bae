"""Griffe extension: show the section ``Example:`` of our docstrings as code, as Google's ``Examples:``."""

from __future__ import annotations

import re
from typing import Any

import griffe

HEADING = re.compile(r"^(\s*)Example:$", re.MULTILINE)


class Examples(griffe.Extension):
    """Renames the section before griffe parses the docstring."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Rename the section of one function, class or module."""
        if obj.docstring is not None:
            obj.docstring.value = HEADING.sub(r"\1Examples:", obj.docstring.value)
