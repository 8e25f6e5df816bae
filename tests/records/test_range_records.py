"""Ranges in a stranger's search record: what is no range is refused where the error names the file."""

from __future__ import annotations

from typing import Any

import pytest

from levelfield.core.errors import RunError
from levelfield.records import RangeRecord
from levelfield.records._parse import parse_record


@pytest.mark.parametrize(
    "values",
    [
        {"kind": "float", "low": 1e9, "high": 1.0},
        {"kind": "float", "low": 0.0, "high": 1e308},
        {"kind": "float", "low": None, "high": 1.0},
        {"kind": "int", "low": 1, "high": 9, "step": -1},
        {"kind": "float", "low": -1.0, "high": 1.0, "log": True},
        {"kind": "choice", "options": []},
    ],
)
def test_a_bad_range_is_one_line(values: dict[str, Any]) -> None:
    with pytest.raises(RunError, match=r"search\.json does not fit"):
        parse_record(RangeRecord, values, "search.json")
