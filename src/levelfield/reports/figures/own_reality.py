"""Figures 3, 4 and 5 of the reality check from own experiments: what papers report against own records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from levelfield.analysis import Analysis
from levelfield.analysis.published import (
    PublishedPoint,
    claimed,
    claimed_improvements,
    measured_improvements,
    years,
)
from levelfield.core.errors import UsageError
from levelfield.records import SETTINGS
from levelfield.reports.figures.charts import Bar, BarChart, PanelChart
from levelfield.reports.figures.published import (
    DATASETS,
    papers_versus_reality,
    relative_improvement,
    score_bars,
)

BASELINES = ("contrastive", "triplet")
SAME_NUMBER = {"precision_at_1": "recall_at_1"}  # one neighbor: both are the share of queries that it fits


def own_points(analysis: Analysis, *, setting: str, metric: str = "precision_at_1") -> list[PublishedPoint]:
    """Return the means (%) of an experiment's trained methods, oldest first; year 0 if it is not known."""
    infos = analysis.comparison.metric_infos
    asked, metric = metric, metric if metric in infos else SAME_NUMBER.get(metric, metric)
    info = infos.get(metric)
    if info is None:
        raise UsageError(
            f"{analysis.root} has no {asked}; add it to `metrics` of its experiment file and run it again"
        )
    found = []
    for result in analysis.comparison.trained:
        mean = analysis.interval(result.method, setting, metric)
        label, year = years().get(result.method, (result.method, 0))
        if mean.n:
            count = len(result.scores[setting][metric])
            found.append(PublishedPoint(result.method, label, year, info.scale * mean.mean, count))
    return sorted(found, key=lambda point: (point.year, point.label))


def without_year(analyses: Iterable[Analysis]) -> list[str]:
    """Return the trained methods that Figure 4 cannot show, because no published table has their year."""
    names = (result.method for each in analyses for result in each.comparison.trained)
    return sorted({name for name in names if name not in years()})


def own_charts(analyses: Sequence[Analysis]) -> dict[str, BarChart | PanelChart]:
    """Return Figures 3, 4 and 5 with the records of experiments as reality, by file name.

    A figure that needs more than there is, is left out: Figure 4 needs a method with a published year,
    Figure 5 a baseline (contrastive or triplet) and another method, both on a dataset that papers use.
    """
    named = _by_dataset(analyses)
    charts: dict[str, BarChart | PanelChart] = {}
    for dataset, analysis in named.items():
        scores = {setting: _bars(analysis, setting) for setting in SETTINGS}
        shown = {setting: bars for setting, bars in scores.items() if bars}
        if shown:
            charts[f"map-at-r-{dataset}"] = score_bars(
                shown, title=f"MAP@R on {_label(dataset)}, own records"
            )
    papers = {_label(name): claimed(name) for name in named if name in DATASETS}
    reality = {
        _label(name): [point for point in own_points(found, setting=_main(found)) if point.year]
        for name, found in named.items()
    }
    if any(papers.values()) and any(reality.values()):
        charts["papers-versus-reality"] = papers_versus_reality(papers, reality)
    for baseline in BASELINES:
        own = {setting: _improvements(baseline, named, setting) for setting in SETTINGS}
        measured = {setting: found for setting, found in own.items() if any(found.values())}
        if measured:
            claims = {
                _label(name): claimed_improvements(baseline, name) for name in named if name in DATASETS
            }
            charts[f"improvement-over-{baseline}"] = relative_improvement(
                {"papers": claims, **measured}, baseline=baseline
            )
    if not charts:
        raise UsageError("these experiments have no test scores yet; finish them with: levelfield run FILE")
    return charts


def _by_dataset(analyses: Sequence[Analysis]) -> dict[str, Analysis]:
    found: dict[str, Analysis] = {}
    for analysis in analyses:
        name = analysis.comparison.experiment.dataset.name
        if name in found:
            raise UsageError(
                f"{found[name].root} and {analysis.root} both use the dataset {name}; give one of them"
            )
        found[name] = analysis
    return found


def _bars(analysis: Analysis, setting: str) -> Mapping[str, Bar]:
    info = analysis.comparison.metric_infos.get("map_at_r")
    bars = {}
    for point in own_points(analysis, setting=setting, metric="map_at_r") if info else ():
        half = analysis.interval(point.method, setting, "map_at_r").half_width * info.scale if info else None
        bars[point.label] = Bar(
            point.value, half, hover_text=f"{point.n} scores of {Path(analysis.root).name}"
        )
    return bars


def _improvements(baseline: str, named: Mapping[str, Analysis], setting: str) -> dict[str, dict[str, float]]:
    found = {}
    for name, analysis in named.items():
        points = own_points(analysis, setting=setting)
        if any(point.method == baseline for point in points):
            found[_label(name)] = measured_improvements(baseline, points)
    return found


def _main(analysis: Analysis) -> str:
    """Return the setting of Figure 4, concatenated as in the paper, or the only one there is."""
    return next((s for s in reversed(SETTINGS) if own_points(analysis, setting=s)), "concatenated")


def _label(dataset: str) -> str:
    return DATASETS.get(dataset, dataset)
