"""Common parts of all pages: style, scripts, charts and the content security policy."""

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
from markupsafe import Markup, escape

from levelfield.reports.figures import (
    BarChart,
    Chart,
    ContourChart,
    IntervalChart,
    MatrixChart,
    PanelChart,
    svg_text,
    to_plotly,
)
from levelfield.reports.figures.charts import color

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLOTLY = "plotly-basic.min.js"


@cache
def asset(name: str) -> str:
    """Return the content of a file in ``assets``."""
    return (resources.files("levelfield.reports") / "assets" / name).read_text(encoding="utf-8")


@cache
def environment() -> jinja2.Environment:
    """Return the Jinja environment: values are escaped, and missing values are errors."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("levelfield.reports", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def render_page(template: str, *, assets: str | None = None, **values: Any) -> str:
    """Render a page from a template.

    Args:
        template: Name of the template.
        assets: URL of the directory with style and scripts, such as "assets/" or "/assets/"; None puts them
            into the page, which is then one self-contained file.
        values: Values of the template.
    """
    return environment().get_template(template).render(resources=_Resources(assets), **values)


def page_resources(assets: str | None) -> _Resources:
    """Return style and scripts for pages with their own templates; see :func:`render_page`."""
    return _Resources(assets)


class _Resources:
    """Style, scripts and content security policy of a page."""

    def __init__(self, assets: str | None) -> None:
        self._assets = assets

    @property
    def policy(self) -> str:
        """Content security policy: only the scripts of the page run, and it sends no requests."""
        hashes = " ".join(f"'sha256-{_sha256(asset(name))}'" for name in (PLOTLY, "page.js"))
        scripts = hashes if self._assets is None else "'self' file:"
        styles = "'unsafe-inline'" if self._assets is None else "'self' file: 'unsafe-inline'"
        return f"default-src 'none'; img-src data:; style-src {styles}; script-src {scripts}; base-uri 'none'"

    @property
    def style(self) -> Markup:
        """Style sheet."""
        if self._assets is None:
            return Markup("<style>{}</style>").format(Markup(asset("page.css")))
        return Markup('<link rel="stylesheet" href="{}">').format(self._address("page.css"))

    @property
    def scripts(self) -> Markup:
        """Scripts for the end of the page."""
        return Markup("\n").join(self._script(name) for name in (PLOTLY, "page.js"))

    def _script(self, name: str) -> Markup:
        if self._assets is None:
            return Markup("<script>{}</script>").format(Markup(asset(name)))
        return Markup('<script src="{}"></script>').format(self._address(name))

    def _address(self, name: str) -> str:
        """Return the address of an asset. On a server it changes with the content: browsers keep it."""
        version = f"?v={digest_of(asset(name))}" if str(self._assets).startswith("/") else ""
        return f"{self._assets}{name}{version}"


ASSETS = (PLOTLY, "plotly-LICENSE.txt", "page.css", "page.js")


@cache
def digest_of(text: str) -> str:
    """Return a short digest of the content of an asset, for its address."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@cache
def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def data_block(value: Any, *, name: str = "") -> Markup:
    """Return a value as a JSON block in the page; text in it cannot end the block or become markup.

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
class PointImages:
    """Name of a trace and the test image of each of its points, shown on hover."""

    name: str
    rows: tuple[int, ...]


def breakable(name: str) -> Markup:
    """Return a name that may be broken after an underscore.

    Example:
        >>> print(breakable("soft_<b>"))
        soft_<wbr>&lt;b&gt;
    """
    return escape(name).replace("_", Markup("_<wbr>"))


def embed_chart(chart: Chart, *, images: Sequence[PointImages] | None = None) -> Markup:
    """Return a chart as HTML; a matrix becomes a table.

    Args:
        chart: Any chart except a contour, which the basic plotly bundle of the pages cannot draw.
        images: Images to show on hover, for each trace.
    """
    match chart:
        case PanelChart() | BarChart():
            return _plot(chart, images)
        case MatrixChart():
            return _matrix(chart)
        case IntervalChart():
            return intervals_html(chart)
        case ContourChart():
            raise TypeError("pages cannot draw a contour; use `levelfield report --figures`")


def _plot(chart: PanelChart | BarChart, images: Sequence[PointImages] | None) -> Markup:
    from plotly.io.json import to_json_plotly

    figure: dict[str, Any] = to_plotly(chart).to_plotly_json()
    layout = {
        name: value for name, value in figure["layout"].items() if name not in ("template", "font", "title")
    }
    layout["margin"] = {**layout.get("margin", {}), "t": 30}
    content = {"data": figure["data"], "layout": layout}
    if images is not None:
        layout["height"] = 560
        content["images"] = [{"name": trace.name, "rows": trace.rows} for trace in images]
    return Markup(
        '<figure class="plot" aria-label="{0}"><figcaption>{0}</figcaption><div></div>{1}</figure>'
    ).format(chart.title, _block(str(to_json_plotly(content))))


def _matrix(chart: MatrixChart) -> Markup:
    """Return the matrix as a colored table: blue for 1, red for -1."""
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
    if math.isnan(value):  # correlation with a constant metric
        return Markup("<td>-</td>")
    fade = round(255 - 130 * min(1.0, abs(value)))
    shade = f"{fade} {fade + (255 - fade) // 3} 255" if value > 0 else f"255 {fade} {fade}"
    return Markup('<td style="--cell: {}">{}</td>').format(shade, f"{value:.2f}")


def intervals_html(chart: IntervalChart) -> Markup:
    """Return dots with intervals as plain HTML: it needs no script, and prints."""
    ends = [end for row in chart.rows for end in row.ends]
    low, high = min(ends, default=0.0), max(ends, default=1.0)
    space = 0.03 * (high - low) or 1.0
    low, high = low - space, high + space

    def place(value: float) -> str:
        return f"{100 * (value - low) / (high - low):.2f}%"

    rows = []
    for row in chart.rows:
        left, right = row.ends
        width = f"{100 * (right - left) / (high - low):.2f}%"
        bar = (
            Markup('<i style="left: {}; width: {}"></i>').format(place(left), width) if row.half_width else ""
        )
        spread = f"± {row.half_width:.2f}" if row.half_width else ""
        name = breakable(row.name)
        name += Markup(" <small>{}</small>").format(row.note) if row.note else ""
        rows.append(
            Markup(
                '<tr style="--dot: {}"><th scope="row">{}</th>'
                '<td class="track"><span>{}<b style="left: {}"></b></span></td><td class="number">'
                "{} <small>{}</small></td></tr>"
            ).format(color(row.color), name, bar, place(row.value), row.text, spread)
        )
    ticks = Markup("").join(
        Markup('<u style="left: {}">{}</u>').format(place(tick), f"{tick:g}") for tick in _ticks(low, high)
    )
    return Markup(
        '<table class="dots"><caption>{}</caption>'
        '<thead><tr><th scope="col">method</th><th scope="col">{}</th><th scope="col">mean</th></tr></thead>'
        '<tbody>{}</tbody><tfoot><tr><td></td><td class="track"><span>{}</span></td><td></td></tr></tfoot>'
        "</table>"
    ).format(chart.title, chart.x_label, Markup("\n").join(rows), ticks)


def _ticks(low: float, high: float) -> list[float]:
    """Return 3 to 7 round numbers between two ends.

    Example:
        >>> _ticks(16.2, 20.1)
        [17.0, 18.0, 19.0, 20.0]
    """
    step = 10.0 ** math.floor(math.log10((high - low) / 3))
    step *= next(factor for factor in (5, 2, 1) if (high - low) / (step * factor) >= 3)
    first = math.ceil(low / step)
    return [round(step * number, 10) for number in range(first, math.floor(high / step) + 1)]


def embed_figure(figure: Figure) -> Markup:
    """Return a matplotlib figure as inline SVG; matplotlib escapes the names."""
    svg = svg_text(figure)
    return Markup('<div class="diagram" tabindex="0" role="img" aria-label="{}">{}</div>').format(
        figure.axes[0].get_title(), Markup(svg[svg.index("<svg") :])
    )


def encode_images(images: Mapping[str, bytes]) -> dict[str, str]:
    """Encode images as base64."""
    return {name: base64.b64encode(content).decode() for name, content in images.items()}
