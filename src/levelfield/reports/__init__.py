"""Reports: tables, figures and pages, all made from records."""

from levelfield.reports._across import Across, compare_across
from levelfield.reports._beside import Beside, beside_published
from levelfield.reports._compare import comparison_json, comparison_markdown, focus, write_comparison
from levelfield.reports._evidence import Evidence, weigh
from levelfield.reports._figures import write_figures
from levelfield.reports._findings import Finding
from levelfield.reports._latex import results_latex
from levelfield.reports._page import write_report
from levelfield.reports._tables import results_csv, results_json, results_markdown, table_rows

__all__ = [
    "Across",
    "Beside",
    "Evidence",
    "Finding",
    "beside_published",
    "compare_across",
    "comparison_json",
    "comparison_markdown",
    "focus",
    "results_csv",
    "results_json",
    "results_latex",
    "results_markdown",
    "table_rows",
    "weigh",
    "write_comparison",
    "write_figures",
    "write_report",
]
