"""Interactive figures of one experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from levelfield.protocol import Comparison
from levelfield.records import Store
from levelfield.reports._tables import metric_name

COLOURS = ("#2a6fbb", "#d1495b", "#3a9679", "#e0a030", "#7a5ea8", "#5b6770", "#c06c9a", "#7f8c2f")
CONCATENATED, SEPARATED = "#2a6fbb", "#9dc3e6"


def score_bars(comparison: Comparison) -> go.Figure:
    """The selection metric of every method, separated and concatenated, with its interval."""
    metric = comparison.experiment["training"]["metric"]
    metric = metric if metric in comparison.metrics else comparison.metrics[-1]
    figure = go.Figure()
    for setting, colour in (("separated", SEPARATED), ("concatenated", CONCATENATED)):
        shown = [result for result in comparison.results if result.scores[setting][metric]]
        intervals = [result.interval(setting, metric) for result in shown]
        figure.add_bar(
            name=setting,
            x=[result.method for result in shown],
            y=[100 * interval.mean for interval in intervals],
            error_y={"array": [100 * i.half_width if i.n > 1 else 0 for i in intervals], "color": "#333"},
            marker_color=colour,
        )
    return _styled(figure, f"Test {metric_name(metric)} (%), mean and 95% interval", y="%").update_layout(
        barmode="group"
    )


def learning_curves(comparison: Comparison, root: Path) -> go.Figure:
    """Validation score against the epoch, mean over the folds of each method's selected trial."""
    metric = comparison.experiment["training"]["metric"]
    figure = go.Figure()
    for index, result in enumerate(comparison.trained):
        trial = result.trials[result.selection["trial"]]
        logs = [Store(root).run(run).log() for run in trial["runs"]]
        for fold, log in enumerate(logs):
            figure.add_scatter(
                x=[line["epoch"] for line in log],
                y=[100 * line[metric] for line in log],
                name=result.method,
                legendgroup=result.method,
                showlegend=fold == 0,
                line={"color": COLOURS[index % len(COLOURS)], "width": 1.5},
                opacity=0.8,
                hovertext=f"fold {fold}",
            )
    return _styled(
        figure, f"Validation {metric_name(metric)} (%) of the selected trial, one line per fold", x="epoch"
    )


def search_history(comparison: Comparison) -> go.Figure:
    """Score of each trial, and the best so far, per method."""
    metric = comparison.experiment["training"]["metric"]
    figure = go.Figure()
    for index, result in enumerate(comparison.trained):
        colour = COLOURS[index % len(COLOURS)]
        done = [trial for trial in result.trials if trial["score"] is not None]
        best: list[float] = []
        for trial in done:
            best.append(max([100 * trial["score"], *best[-1:]]))
        figure.add_scatter(
            x=[trial["number"] + 1 for trial in done],
            y=[100 * trial["score"] for trial in done],
            text=[_shown(trial["hyperparameters"]) for trial in done],
            mode="markers",
            name=result.method,
            legendgroup=result.method,
            marker={"color": colour, "size": 8},
        )
        figure.add_scatter(
            x=[trial["number"] + 1 for trial in done],
            y=best,
            mode="lines",
            line={"color": colour, "shape": "hv", "width": 1.5},
            legendgroup=result.method,
            showlegend=False,
            hoverinfo="skip",
        )
    title = f"Search: mean validation {metric_name(metric)} (%) of each trial; line: best so far"
    return _styled(figure, title, x="trial").update_xaxes(tickformat="d", dtick=_whole_ticks(comparison))


def _whole_ticks(comparison: Comparison) -> int:
    """A distance of ticks that never falls between two trials."""
    most = max((len(result.trials) for result in comparison.results), default=1)
    return max(1, most // 10)


def _shown(hyperparameters: dict[str, Any]) -> str:
    return "<br>".join(
        f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in hyperparameters.items()
    )


def _styled(figure: go.Figure, title: str, *, x: str = "", y: str = "%") -> go.Figure:
    return figure.update_layout(
        title={"text": title, "font": {"size": 15}, "x": 0.01, "xanchor": "left"},
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 13, "color": "#222"},
        xaxis_title=x,
        yaxis_title=y,
        height=400,
        margin={"l": 60, "r": 20, "t": 50, "b": 50},
        legend={"orientation": "h", "y": -0.2},
    )
