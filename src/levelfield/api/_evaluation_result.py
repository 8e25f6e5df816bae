"""Result object of ``lf.evaluate`` for several models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from levelfield.analysis import Conclusion, ModelComparison
from levelfield.api._result import as_frame

if TYPE_CHECKING:
    from levelfield.api._nearest_images import GalleryInput
    from levelfield.reports import EvaluationGallery


@dataclass(frozen=True, eq=False, repr=False)
class EvaluationResult:
    """Scores of several models, and the verdicts on them.

    ``table`` and ``pairs`` are pandas data frames where pandas is installed, else lists of dictionaries.
    Their scores and differences are fractions.

    Attributes:
        comparison: Scores of single queries and all judgments, for code that needs more.
        left_out: Reason for each model, or seed of a model, that could not be scored.
    """

    comparison: ModelComparison
    left_out: Mapping[str, str] = field(default_factory=dict)
    _gallery: GalleryInput | None = None

    def with_gallery(self, given: GalleryInput) -> EvaluationResult:
        """Return the result with images for the report."""
        return replace(self, _gallery=given)

    @property
    def table(self) -> Any:
        """Scores with 95% intervals for other classes of this kind: one row per model, best model first."""
        return as_frame([{"model": row.pop("name"), **row} for row in self._rows(flat=True)])

    def _rows(self, *, flat: bool) -> list[dict[str, Any]]:
        found = []
        for name in self.comparison.means:
            row: dict[str, Any] = {"name": name, "seeds": self.comparison.models[name].seeds}
            scores: dict[str, Any] = {}
            for metric in self.comparison.metric_infos:
                alone = self.comparison.interval_alone(name, metric)
                known = math.isfinite(alone.half_width)
                low, high = (alone.mean + sign * alone.half_width if known else None for sign in (-1, 1))
                mean = alone.mean if math.isfinite(alone.mean) else None
                if flat:
                    scores |= {metric: mean, f"{metric}.low": low, f"{metric}.high": high}
                else:
                    scores[metric] = {"mean": mean, "low": low, "high": high}
            found.append({**row, **(scores if flat else {"scores": scores})})
        return found

    @property
    def pairs(self) -> Any:
        """Judged pairs of models: difference, interval, p-value, verdict; the better mean first."""
        return as_frame([pair.as_dict() for pair in self.comparison.pairs])

    @property
    def verdict(self) -> str:
        """Short sentences: which model to use, and how sure that is."""
        return self.conclusion.text

    @cached_property
    def conclusion(self) -> Conclusion:
        """Facts behind :attr:`verdict`: the model to use, tied and worse models, what the test can see."""
        return self.comparison.conclusion

    @property
    def best(self) -> tuple[str, ...]:
        """Models that no other was found better than, best mean first."""
        leaders = self.comparison.leaders(self.comparison.metric)
        return tuple(name for name in self.comparison.means if name in leaders)

    def classes(self, first: str, second: str) -> Any:
        """Return the classes on which two models differ, the largest difference first."""
        found = self.comparison.class_differences(first, second, limit=None)
        return as_frame([{**asdict(each), "difference": each.difference} for each in found])

    def queries(self, first: str, second: str) -> Any:
        """Return the queries on which two models differ, the largest difference first."""
        found = self.comparison.query_differences(first, second, limit=None)
        return as_frame([{**asdict(each), "difference": each.difference} for each in found])

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the values per query, ready for JSON; scores are fractions."""
        comparison = self.comparison
        first, *others = comparison.means
        scored = comparison.scored
        return {
            "metric": comparison.metric,
            "verdict": self.verdict,
            "best": list(self.best),
            "queries": int(scored.sum()),
            "skipped": int((~scored).sum()),
            "classes": comparison.judgment.classes,
            "models": self._rows(flat=False),
            "pairs": [pair.as_dict() for pair in comparison.pairs],
            "visible": self.conclusion.visible,
            "detectable": comparison.detectable,
            "differences": [
                {
                    "first": first,
                    "second": second,
                    "classes": [asdict(each) for each in comparison.class_differences(first, second)],
                    "queries": [asdict(each) for each in comparison.query_differences(first, second)],
                }
                for second in others
            ],
            "caveats": list(comparison.caveats),
            "left_out": dict(self.left_out),
        }

    def write_report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page: verdict, scores, differences and, with images, a gallery."""
        from levelfield.core.files import write_text
        from levelfield.reports import render_evaluation_page

        written = Path(path)
        write_text(written, render_evaluation_page(self.comparison, gallery=self._made_gallery))
        return written

    @cached_property
    def _made_gallery(self) -> EvaluationGallery | None:
        from levelfield.api._nearest_images import build_gallery

        return None if self._gallery is None else build_gallery(self.comparison, self._gallery)

    def __repr__(self) -> str:
        return f"EvaluationResult({', '.join(self.comparison.means)}): {self.verdict}"

    def _repr_html_(self) -> str:
        from levelfield.reports import evaluation_table

        return f"<p><b>{escape(self.verdict)}</b></p>{evaluation_table(self.comparison).html()}"
