"""Reports: tables, figures and pages, all made from records."""

from levelfield.reports._page import write_report
from levelfield.reports._tables import results_csv, results_json, results_markdown, table_rows

__all__ = ["results_csv", "results_json", "results_markdown", "table_rows", "write_report"]
