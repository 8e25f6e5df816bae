"""Charts as files: a PNG, and an interactive page that needs no network."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from levelfield.records import write_bytes, write_text
from levelfield.reports.figures.charts import Chart

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.figure import Figure


def interactive(chart: Chart) -> go.Figure:
    """A chart as a plotly figure."""
    from levelfield.reports.figures._plotly import draw_plotly

    return draw_plotly(chart)


def still(chart: Chart) -> Figure:
    """A chart as a matplotlib figure."""
    from levelfield.reports.figures._matplotlib import draw_matplotlib

    return draw_matplotlib(chart)


def write_chart(chart: Chart, folder: str | Path, name: str) -> tuple[Path, Path]:
    """Write ``name``.png and ``name``.html into ``folder``; the paths of both.

    The pages of a folder share one copy of plotly's script beside them, and load nothing from elsewhere.
    """
    png, html = Path(folder) / f"{name}.png", Path(folder) / f"{name}.html"
    write_png(still(chart), png)
    write_text(html, interactive(chart).to_html(include_plotlyjs="directory"))
    script = html.with_name("plotly.min.js")
    if not script.exists():
        from plotly.offline import get_plotlyjs

        write_text(script, get_plotlyjs())
    return png, html


def svg_text(figure: Figure) -> str:
    """A matplotlib figure as SVG whose text is text, the same every time."""
    import matplotlib

    buffer = BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "levelfield"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue().decode()


def write_svg(figure: Figure, path: Path) -> None:
    """Write a matplotlib figure as SVG so that a reader never sees half of it."""
    write_text(path, svg_text(figure))


def write_png(figure: Figure, path: Path) -> None:
    """Write a matplotlib figure so that a reader never sees half of it."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    write_bytes(path, buffer.getvalue())
