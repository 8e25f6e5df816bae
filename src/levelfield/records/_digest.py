"""Digest of a record."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def long_digest(value: Any) -> str:
    """Return all 64 hexadecimal digits of the digest of a JSON value.

    Two values with the same first 16 digits can be made on purpose, with some hours of computing. Use all
    digits where an attacker could gain from that.

    Example:
        >>> long_digest({"a": 1}).startswith(digest({"a": 1})), len(long_digest({"a": 1}))
        (True, 64)
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits that depend on a JSON value, but not on the order of its keys.

    Example:
        >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
        True
    """
    return long_digest(value)[:16]
