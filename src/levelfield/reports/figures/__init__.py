"""Figures: a chart is plain data, drawn with plotly for pages and with matplotlib for PNG.

A figure of an experiment is a function that is registered here; ``levelfield report --figures`` draws all of
them.
"""

from levelfield.reports.figures._registry import FigureCard, charts_of, register, registry
from levelfield.reports.figures.charts import (
    Axis,
    Bar,
    BarChart,
    Chart,
    ContourChart,
    MatrixChart,
    Panel,
    PanelChart,
    Trace,
)
from levelfield.reports.figures.files import interactive, still, svg_text, write_chart, write_png, write_svg

__all__ = [
    "Axis",
    "Bar",
    "BarChart",
    "Chart",
    "ContourChart",
    "FigureCard",
    "MatrixChart",
    "Panel",
    "PanelChart",
    "Trace",
    "charts_of",
    "interactive",
    "register",
    "registry",
    "still",
    "svg_text",
    "write_chart",
    "write_png",
    "write_svg",
]
