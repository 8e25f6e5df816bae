"""Figures: charts are plain data, drawn with plotly for pages and with matplotlib for PNG.

A figure of an experiment is a registered function. ``levelfield report --figures`` draws all of them.
"""

from levelfield.reports.figures._registry import FigureCard, build_charts, register, registry
from levelfield.reports.figures.charts import (
    Axis,
    Bar,
    BarChart,
    Chart,
    ContourChart,
    IntervalChart,
    IntervalRow,
    MatrixChart,
    Panel,
    PanelChart,
    Trace,
)
from levelfield.reports.figures.files import (
    svg_text,
    to_matplotlib,
    to_plotly,
    write_chart,
    write_png,
    write_svg,
)

__all__ = [
    "Axis",
    "Bar",
    "BarChart",
    "Chart",
    "ContourChart",
    "FigureCard",
    "IntervalChart",
    "IntervalRow",
    "MatrixChart",
    "Panel",
    "PanelChart",
    "Trace",
    "build_charts",
    "register",
    "registry",
    "svg_text",
    "to_matplotlib",
    "to_plotly",
    "write_chart",
    "write_png",
    "write_svg",
]
