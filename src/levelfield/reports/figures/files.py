"""Charts as files: PNG, SVG, and interactive HTML pages that need no network."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from levelfield.records import write_bytes, write_text
from levelfield.reports.figures.charts import Chart

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.figure import Figure


def to_plotly(chart: Chart) -> go.Figure:
    """Return a chart as a plotly figure."""
    from levelfield.reports.figures._plotly import draw_plotly

    return draw_plotly(chart)


def to_matplotlib(chart: Chart) -> Figure:
    """Return a chart as a matplotlib figure."""
    from levelfield.reports.figures._matplotlib import draw_matplotlib

    return draw_matplotlib(chart)


def write_chart(chart: Chart, directory: str | Path, name: str) -> tuple[Path, Path]:
    """Write ``name``.png and ``name``.html into ``directory``; return both paths.

    The pages of a directory share one copy of the plotly script and load nothing from other hosts.
    """
    png, html = Path(directory) / f"{name}.png", Path(directory) / f"{name}.html"
    write_png(to_matplotlib(chart), png)
    write_text(html, to_plotly(chart).to_html(include_plotlyjs="directory"))
    script = html.with_name("plotly.min.js")
    if not script.exists():
        from plotly.offline import get_plotlyjs

        write_text(script, get_plotlyjs())
    return png, html


def svg_text(figure: Figure) -> str:
    """Return a matplotlib figure as SVG. Text stays text, and the output is reproducible."""
    import matplotlib

    buffer = BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "levelfield"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue().decode()


def write_svg(figure: Figure, path: Path) -> None:
    """Write a matplotlib figure as SVG, atomically."""
    write_text(path, svg_text(figure))


def write_png(figure: Figure, path: Path) -> None:
    """Write a matplotlib figure as PNG, atomically."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    write_bytes(path, buffer.getvalue())
