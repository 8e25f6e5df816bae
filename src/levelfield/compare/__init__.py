"""The judgement: which methods differ, within an experiment, over several, and from the papers.

Everything is read from records; nothing is trained or scored, and torch is not loaded.
"""

from levelfield.compare._across import Across, case_names, compare_across
from levelfield.compare._archive import archive
from levelfield.compare._beside_published import Beside, beside_published
from levelfield.compare._confirmation import Confirmation, Neighbours, read_confirmation
from levelfield.compare._evidence import (
    Evidence,
    findings_of,
    focus,
    judge_methods,
    ranked,
    table_of,
    weigh,
)
from levelfield.compare._findings import Finding
from levelfield.compare._measures import measure
from levelfield.compare._power import Power, power_of
from levelfield.compare._results import Comparison, Repeat, Result, collect
from levelfield.compare._verify import verify
from levelfield.records import SETTINGS, LedgerLine, Measure, Rerun, Revision, Selection, Trial

__all__ = [
    "SETTINGS",
    "Across",
    "Beside",
    "Comparison",
    "Confirmation",
    "Evidence",
    "Finding",
    "LedgerLine",
    "Measure",
    "Neighbours",
    "Power",
    "Repeat",
    "Rerun",
    "Result",
    "Revision",
    "Selection",
    "Trial",
    "archive",
    "beside_published",
    "case_names",
    "collect",
    "compare_across",
    "findings_of",
    "focus",
    "judge_methods",
    "measure",
    "power_of",
    "ranked",
    "read_confirmation",
    "table_of",
    "verify",
    "weigh",
]
