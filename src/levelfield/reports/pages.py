"""What all pages share: style, script, charts, and the rule that nothing is loaded from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from levelfield.reports.figures import (
    BarChart,
    Chart,
    ContourChart,
    MatrixChart,
    PanelChart,
    interactive,
    svg_text,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOTLY = "plotly-basic.min.js"


@cache
def asset(name: str) -> str:
    """A file of the folder ``assets``."""
    return (resources.files("levelfield.reports") / "assets" / name).read_text(encoding="utf-8")


@cache
def environment() -> jinja2.Environment:
    """Templates whose values are escaped; a value that is missing is an error."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("levelfield.reports", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def render_page(template: str, *, assets: str | None = None, **values: Any) -> str:
    """A page from a template.

    Args:
        template: Its name.
        assets: Where style and scripts lie, as seen from the page, "assets/" or "/assets/"; None puts them
            into the page, which is then one file that can be mailed.
        values: What the template shows.
    """
    return environment().get_template(template).render(resources=_Resources(assets), **values)


def page_resources(assets: str | None) -> _Resources:
    """Style and scripts for a page of another room; see :func:`render_page`."""
    return _Resources(assets)


class _Resources:
    """Style and scripts of a page, inside it or beside it, and the policy that forbids all others."""

    def __init__(self, assets: str | None) -> None:
        self._assets = assets

    @property
    def policy(self) -> str:
        """The page's content security policy: only its own scripts run, and it asks nobody for anything."""
        hashes = " ".join(f"'sha256-{_sha256(asset(name))}'" for name in (PLOTLY, "page.js"))
        scripts = hashes if self._assets is None else "'self' file:"
        styles = "'unsafe-inline'" if self._assets is None else "'self' file: 'unsafe-inline'"
        return f"default-src 'none'; img-src data:; style-src {styles}; script-src {scripts}; base-uri 'none'"

    @property
    def style(self) -> Markup:
        """The style sheet."""
        if self._assets is None:
            return Markup("<style>{}</style>").format(Markup(asset("page.css")))
        return Markup('<link rel="stylesheet" href="{}page.css">').format(self._assets)

    @property
    def scripts(self) -> Markup:
        """The scripts, for the end of the page."""
        return Markup("\n").join(self._script(name) for name in (PLOTLY, "page.js"))

    def _script(self, name: str) -> Markup:
        if self._assets is None:
            return Markup("<script>{}</script>").format(Markup(asset(name)))
        return Markup('<script src="{}{}"></script>').format(self._assets, name)


ASSETS = (PLOTLY, "plotly-LICENSE.txt", "page.css", "page.js")


@cache
def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def data_block(value: Any, *, name: str = "") -> Markup:
    """A value as JSON inside the page, where no text can end the block or become markup.

    Example:
        >>> print(data_block({"name": "</script>"}))
        <script type="application/json">{"name":"\\u003c/script>"}</script>
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return _block(text, name)


def _block(text: str, name: str = "") -> Markup:
    mark = Markup(' id="{}"').format(name) if name else Markup("")
    safe = Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
    return Markup('<script type="application/json"{}>{}</script>').format(mark, safe)


@dataclass(frozen=True)
class PointPictures:
    """What is shown on hover over a trace: its name, and the test image of each point."""

    name: str
    rows: tuple[int, ...]


def plot(chart: Chart, *, pictures: Sequence[PointPictures] | None = None) -> Markup:
    """A chart as a piece of a page; a matrix as a table.

    Args:
        chart: Any but a contour, which the slim plotly of pages cannot draw.
        pictures: For each trace, the pictures that the page shows on hover.
    """
    match chart:
        case PanelChart() | BarChart():
            return _plot(chart, pictures)
        case MatrixChart():
            return _matrix(chart)
        case ContourChart():
            raise TypeError("pages cannot draw a contour; `levelfield report --figures` does")


def _plot(chart: PanelChart | BarChart, pictures: Sequence[PointPictures] | None) -> Markup:
    from plotly.io.json import to_json_plotly

    figure: dict[str, Any] = interactive(chart).to_plotly_json()
    layout = {
        name: value for name, value in figure["layout"].items() if name not in ("template", "font", "title")
    }
    layout["margin"] = {**layout.get("margin", {}), "t": 30}
    content = {"data": figure["data"], "layout": layout}
    if pictures is not None:
        layout["height"] = 560
        content["pictures"] = [{"name": trace.name, "rows": trace.rows} for trace in pictures]
    return Markup(
        '<figure class="plot" aria-label="{0}"><figcaption>{0}</figcaption><div></div>{1}</figure>'
    ).format(chart.title, _block(str(to_json_plotly(content))))


def _matrix(chart: MatrixChart) -> Markup:
    """A coloured table: blue for 1, red for -1, so that it can be read and copied."""
    heads = Markup("").join(Markup('<th scope="col">{}</th>').format(name) for name in chart.names)
    rows = []
    for name, line in zip(chart.names, chart.values.tolist(), strict=True):
        cells = Markup("").join(_matrix_cell(value) for value in line)
        rows.append(Markup('<tr><th scope="row">{}</th>{}</tr>').format(name, cells))
    return Markup(
        '<table class="matrix"><caption>{}</caption>'
        "<thead><tr><td></td>{}</tr></thead><tbody>{}</tbody></table>"
    ).format(chart.title, heads, Markup("\n").join(rows))


def _matrix_cell(value: float) -> Markup:
    if math.isnan(value):  # it never changes, so it correlates with nothing
        return Markup("<td>-</td>")
    fade = round(255 - 130 * min(1.0, abs(value)))
    colour = f"{fade} {fade + (255 - fade) // 3} 255" if value > 0 else f"255 {fade} {fade}"
    return Markup('<td style="--cell: {}">{}</td>').format(colour, f"{value:.2f}")


def drawing(figure: Figure) -> Markup:
    """A matplotlib figure as a piece of a page: SVG, whose names matplotlib has escaped."""
    svg = svg_text(figure)
    return Markup('<div class="diagram" tabindex="0" role="img" aria-label="{}">{}</div>').format(
        figure.axes[0].get_title(), Markup(svg[svg.index("<svg") :])
    )


def region(content: Markup, label: str) -> Markup:
    """A card that can be scrolled sideways, also with the keyboard."""
    return Markup('<div class="card" tabindex="0" role="region" aria-label="{}">{}</div>').format(
        label, content
    )


def encoded_pictures(pictures: Mapping[str, bytes]) -> dict[str, str]:
    """Pictures as text for a page."""
    return {name: base64.b64encode(content).decode() for name, content in pictures.items()}
