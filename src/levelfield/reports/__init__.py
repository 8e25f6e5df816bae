"""Reports: tables, figures and pages, all made from records. They only show; `levelfield.compare` judges.

Nothing here loads torch.
"""

from levelfield.reports._comparison import (
    across_table,
    beside_published_tables,
    comparison_json,
    comparison_markdown,
    means_table,
    pairs_table,
    write_comparison,
)
from levelfield.reports._figures import write_figures
from levelfield.reports._page import render_report, write_report
from levelfield.reports._power import power_text
from levelfield.reports._results_table import (
    results_json,
    results_lines,
    results_markdown,
    results_table,
    warnings,
)
from levelfield.reports._verify import verify_folder
from levelfield.reports.table import Cell, Column, Row, Table

__all__ = [
    "Cell",
    "Column",
    "Row",
    "Table",
    "across_table",
    "beside_published_tables",
    "comparison_json",
    "comparison_markdown",
    "means_table",
    "pairs_table",
    "power_text",
    "render_report",
    "results_json",
    "results_lines",
    "results_markdown",
    "results_table",
    "verify_folder",
    "warnings",
    "write_comparison",
    "write_figures",
    "write_report",
]
