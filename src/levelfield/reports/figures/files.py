"""Charts as files: a PNG, and an interactive page that needs no network."""

from __future__ import annotations

from pathlib import Path

from levelfield.records import write_text
from levelfield.reports.figures._interactive import Chart, interactive
from levelfield.reports.figures._still import still
from levelfield.reports.figures.published_draw import write_png


def write_chart(chart: Chart, folder: Path, name: str) -> tuple[Path, Path]:
    """Write ``name``.png and ``name``.html into ``folder``; the paths of both."""
    png, html = folder / f"{name}.png", folder / f"{name}.html"
    write_png(still(chart), png)
    write_text(html, interactive(chart).to_html(include_plotlyjs=True))
    return png, html
