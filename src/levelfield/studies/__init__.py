"""Studies of single claims about evaluation itself; ``run_study`` of each module runs it from scratch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from levelfield.core.lazy import lazy_exports

if TYPE_CHECKING:
    from levelfield.studies import (
        metrics_on_random,
        metrics_on_toys,
        search_luck,
        structure,
        test_feedback,
        toy_lines,
    )

__all__ = ["metrics_on_random", "metrics_on_toys", "search_luck", "structure", "test_feedback", "toy_lines"]

__getattr__, __dir__ = lazy_exports(
    __name__, {f"levelfield.studies.{module}": (module,) for module in __all__}
)
