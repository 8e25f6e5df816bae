"""Strict JSON: no NaN, no infinite or endless numbers, and no name twice in an object."""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DIGITS = 100  # of a whole number


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; odd numbers and repeated names raise ValueError."""
    return json.loads(
        text,
        parse_constant=_refuse_number,
        parse_float=_parse_float,
        parse_int=_parse_int,
        object_pairs_hook=unique_names,
    )


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object; readers do not agree which of two values with one name counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice in an object")
    return found


def _refuse_number(text: str) -> None:
    raise ValueError(f"{text[:20]} is not a number that a record holds")


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        _refuse_number(text)
    return value


def _parse_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        _refuse_number(text)
    return int(text)
