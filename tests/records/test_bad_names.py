"""Numbers and names in a stranger's selections and ledger: found by 10,000 damaged records."""

from __future__ import annotations

from typing import Any

import pytest

from levelfield.core.errors import RunError
from levelfield.records import LedgerLine, Selection
from levelfield.records._parse import parse_record

LINE = {"time": "2026-11-18T00:00:00+00:00", "host": "h", "commit": None, "method": "m", "event": "e"}


def test_no_trial_has_a_negative_number() -> None:
    with pytest.raises(RunError, match=r"selection\.json does not fit"):
        parse_record(Selection, {"method": "untrained", "trial": -1}, "selection.json")


@pytest.mark.parametrize("name", ["9" * 5000, "../../outside", "a\0b"])
def test_a_selection_in_the_ledger_is_the_name_of_a_file(name: str) -> None:
    values: dict[str, Any] = LINE | {"selection": name, "previous": ""}
    with pytest.raises(RunError, match=r"ledger\.jsonl does not fit"):
        parse_record(LedgerLine, values, "ledger.jsonl")


def test_a_line_for_the_whole_experiment_names_no_selection() -> None:
    assert parse_record(LedgerLine, LINE | {"selection": "", "previous": ""}, "ledger.jsonl").selection == ""
