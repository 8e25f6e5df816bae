"""Reports: tables, figures and pages from records. `levelfield.analysis` computes the verdicts shown here.

Nothing here loads torch.
"""

from levelfield.reports._alarm_rate import quote_alarm_rate
from levelfield.reports._choice_page import (
    choice_table,
    choice_text,
    codes_table,
    heads_table,
    render_choice_page,
)
from levelfield.reports._comparison import (
    comparison_json,
    comparison_markdown,
    experiments_table,
    means_table,
    pairs_table,
    published_comparison_tables,
    write_comparison,
)
from levelfield.reports._evaluation_page import EvaluationGallery, render_evaluation_page
from levelfield.reports._evaluation_table import (
    evaluation_caption,
    evaluation_classes_table,
    evaluation_queries_table,
    evaluation_table,
    evaluation_text,
)
from levelfield.reports._figures import write_figures
from levelfield.reports._page import render_report, render_report_head, write_report, write_tables
from levelfield.reports._power import power_text
from levelfield.reports._result_notes import (
    interval_exceptions,
    result_warnings,
    search_luck_warnings,
    unjudged_columns,
)
from levelfield.reports._results_table import (
    results_json,
    results_latex,
    results_lines,
    results_markdown,
    results_table,
    terminal_table,
)
from levelfield.reports._verify import experiment_notes, verify_experiment
from levelfield.reports.table import Table, TableCell, TableColumn, TableRow

__all__ = [
    "EvaluationGallery",
    "Table",
    "TableCell",
    "TableColumn",
    "TableRow",
    "choice_table",
    "choice_text",
    "codes_table",
    "comparison_json",
    "comparison_markdown",
    "evaluation_caption",
    "evaluation_classes_table",
    "evaluation_queries_table",
    "evaluation_table",
    "evaluation_text",
    "experiment_notes",
    "experiments_table",
    "heads_table",
    "interval_exceptions",
    "means_table",
    "pairs_table",
    "power_text",
    "published_comparison_tables",
    "quote_alarm_rate",
    "render_choice_page",
    "render_evaluation_page",
    "render_report",
    "render_report_head",
    "result_warnings",
    "results_json",
    "results_latex",
    "results_lines",
    "results_markdown",
    "results_table",
    "search_luck_warnings",
    "terminal_table",
    "unjudged_columns",
    "verify_experiment",
    "write_comparison",
    "write_figures",
    "write_report",
    "write_tables",
]
