"""Result object of ``lf.choose_model``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from levelfield.analysis import ModelChoice
from levelfield.api._evaluation_result import EvaluationResult
from levelfield.api._result import as_frame


@dataclass(frozen=True, eq=False, repr=False)
class ChoiceResult:
    """Models by quality and cost, and the verdicts on them.

    ``table``, ``pairs`` and ``codes`` are pandas data frames where pandas is installed, else lists of
    dictionaries. Their scores and differences are fractions.

    Attributes:
        choice: Scores, verdicts, costs, codes and heads, for code that needs more.
        left_out: Reason for each model that could not be scored.
    """

    choice: ModelChoice
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def evaluation(self) -> EvaluationResult:
        """The same comparison without costs, as :func:`levelfield.evaluate` returns it."""
        return EvaluationResult(self.choice.comparison, left_out=self.left_out)

    @property
    def verdict(self) -> str:
        """Short sentences: which model to use, which is faster, and which code to store."""
        return self.choice.text

    @property
    def best(self) -> tuple[str, ...]:
        """Models that no other was found better than, best mean first."""
        return self.evaluation.best

    @property
    def undominated(self) -> tuple[str, ...]:
        """Models that no other beats in both quality and speed, best mean first."""
        return self.choice.undominated

    @property
    def table(self) -> Any:
        """Scores with 95% intervals and costs: one row per model, best model first."""
        scored = self.evaluation.as_dict()["models"]
        rows = []
        for row in scored:
            flat = {"model": row["name"]}
            for metric, found in row["scores"].items():
                flat |= {
                    metric: found["mean"],
                    f"{metric}.low": found["low"],
                    f"{metric}.high": found["high"],
                }
            rows.append({**flat, **asdict(self.choice.costs[row["name"]])})
        return as_frame(rows)

    @property
    def pairs(self) -> Any:
        """Judged pairs of models: difference, interval, p-value, verdict; the better mean first."""
        return self.evaluation.pairs

    @property
    def codes(self) -> Any:
        """Scores of smaller codes: one row per model and code."""
        return as_frame(
            [{"model": name, **asdict(code)} for name, found in self.choice.codes.items() for code in found]
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the values per query, ready for JSON; scores are fractions."""
        return {
            **self.evaluation.as_dict(),
            "verdict": self.verdict,
            "costs": {name: asdict(cost) for name, cost in self.choice.costs.items()},
            "codes": {name: [asdict(code) for code in found] for name, found in self.choice.codes.items()},
            "heads": {name: asdict(head) for name, head in self.choice.heads.items()},
            "undominated": list(self.undominated),
        }

    def write_report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page: verdict, scores, costs with a chart, codes and heads."""
        from levelfield.core.files import write_text
        from levelfield.reports import render_choice_page

        written = Path(path)
        write_text(written, render_choice_page(self.choice))
        return written

    def __repr__(self) -> str:
        return f"ChoiceResult({', '.join(self.choice.comparison.means)}): {self.verdict}"

    def _repr_html_(self) -> str:
        from levelfield.reports import choice_table

        return f"<p><b>{escape(self.verdict)}</b></p>{choice_table(self.choice).html()}"
