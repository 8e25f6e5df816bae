"""HTML pages of ``levelfield serve``, rendered from experiment states and records."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from levelfield.analysis import (
    Analysis,
    MetricInfo,
    compare_experiments,
    conclude_experiment,
    find_repeated_pairs,
)
from levelfield.records import Store, Trial
from levelfield.reports import experiments_table, means_table, published_comparison_tables
from levelfield.reports.figures import Axis, Panel, PanelChart, Trace
from levelfield.reports.figures.rank_diagram import critical_difference_diagram
from levelfield.reports.figures.search import history
from levelfield.reports.pages import breakable, embed_chart, embed_figure, page_resources
from levelfield.reports.web._active_runs import count_folds, estimate_progress, find_active_runs, format_time
from levelfield.reports.web._assets import script_address
from levelfield.reports.web._experiment_states import ExperimentState, read_trials

if TYPE_CHECKING:
    from levelfield.reports.web._search_models import IndexFacts

PAGE_SIZE = 50  # trials per page
FRAME_MARK = "<!-- content -->"
SETTINGS = ("concatenated", "separated")


@cache
def environment() -> jinja2.Environment:
    """Return the Jinja environment: values are escaped, and missing values are errors."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("levelfield.reports.web", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    found.filters["breakable"] = breakable
    return found


def _page(template: str, *, search: bool = False, **values: Any) -> str:
    return (
        environment()
        .get_template(template)
        .render(
            resources=page_resources("/assets/"),
            script_address=script_address,
            has_search=search,
            format_time=format_time,
            **values,
        )
    )


def message_page(title: str, text: str) -> str:
    """Return a page with one message."""
    return _page("message.html", title=title, text=text)


def home_page(states: Sequence[ExperimentState], version: str, search: bool) -> str:
    """Return the page with all experiments."""
    return _page(
        "home.html",
        search=search,
        experiment_list=Markup(experiment_list(states, version)),
        count=len(states),
    )


def experiment_list(states: Sequence[ExperimentState], version: str) -> str:
    """Return the table of experiments."""
    return _page("listing.html", states=states, version=version)


def live_page(state: ExperimentState, search: bool) -> str:
    """Return the live page of an experiment; the script of the page updates it."""
    version, fragment = live_fragment(state, since="")
    return _page("live.html", search=search, state=state, version=version, fragment=Markup(fragment))


def live_fragment(state: ExperimentState, *, since: str) -> tuple[str, str]:
    """Return the version and the HTML of the changing part; the HTML is empty if the version is ``since``."""
    active_runs = find_active_runs(state) if state.state == "running" else []
    version = hashlib.sha256(f"{state.version}{active_runs}".encode()).hexdigest()[:16]
    if version == since:
        return version, ""
    if state.record is None or state.metric_info is None:
        return version, _page(
            "live_state.html", state=state, progress=None, active_runs=[], curves_chart=None, charts=[]
        )
    store = Store(state.root)
    progress = estimate_progress(state, folds=count_folds(state, store))
    searches = state.record.experiment.search.repeats
    curves = {f"{run.description} ({run.run_id[:6]})": run.curve for run in active_runs}
    chart = history(_first_searches(state, store), metric_info=state.metric_info, searches=searches)
    return version, _page(
        "live_state.html",
        state=state,
        progress=progress,
        active_runs=active_runs,
        curves_chart=curves_chart(curves, state.metric_info),
        charts=[embed_chart(chart)],
    )


def _first_searches(state: ExperimentState, store: Store) -> dict[str, list[Trial]]:
    """Return the trials of the first search of each method."""
    assert state.record is not None
    searches = state.record.searches
    names = [method.name for method in state.record.experiment.methods]
    return {name: read_trials(store, searches[name][0], {}) for name in names if searches.get(name)}


def trials_page(state: ExperimentState, method: str, number: int, search: bool) -> str:
    """Return one page of trials of a method, ``PAGE_SIZE`` per page, newest last."""
    assert state.record is not None
    store = Store(state.root)
    found = [
        (which, name, trial)
        for which, name in enumerate(state.record.searches[method])
        for trial in read_trials(store, name, {})
    ]
    pages = max(1, -(-len(found) // PAGE_SIZE))
    number = min(max(1, number), pages)
    return _page(
        "trials.html",
        search=search,
        state=state,
        method=method,
        several=len(state.record.searches[method]) > 1,
        trials=found[(number - 1) * PAGE_SIZE : number * PAGE_SIZE],
        number=number,
        pages=pages,
        format_score=_score_formatter(state.metric_info),
    )


def _score_formatter(metric_info: MetricInfo | None) -> Any:
    def format_score(value: float | None) -> str:
        if value is None:
            return "-"
        return f"{value:.4f}" if metric_info is None else metric_info.shown(value)

    return format_score


def find_trial(state: ExperimentState, search: str, number: int) -> tuple[str, Trial] | None:
    """Return the method and the trial with this search and number; None if there is none.

    The search must be one of the experiment record, so that a URL cannot reach other files.
    """
    for method, searches in {} if state.record is None else state.record.searches.items():
        if search in searches and 0 <= number < 10_000:
            trial = Store(state.root).trial(search, number)
            return None if trial is None else (method, trial)
    return None


def trial_page(state: ExperimentState, method: str, search_id: str, trial: Trial, search: bool) -> str:
    """Return the page of one trial: hyperparameters, folds and logs."""
    store, runs_directory = Store(state.root), (state.root / "runs").resolve()
    directories = [
        directory
        for directory in map(store.run, trial.runs)
        if directory.path.resolve().is_relative_to(runs_directory) and (directory.begun or directory.result())
    ]
    runs = [
        {
            "name": directory.path.name,
            "result": directory.result(),
            "provenance": directory.provenance(),
            "log": directory.log(),
            "spec": directory.spec().model_dump_json(indent=2) if directory.begun else "",
        }
        for directory in directories
    ]
    return _page(
        "trial.html",
        search=search,
        state=state,
        method=method,
        search_id=search_id,
        trial=trial,
        runs=runs,
        curve=curves_chart(_by_fold(state.metric_info, runs), state.metric_info),
        format_score=_score_formatter(state.metric_info),
    )


def _by_fold(
    metric_info: MetricInfo | None, runs: Sequence[dict[str, Any]]
) -> dict[str, list[tuple[int, float]]]:
    name = "" if metric_info is None else metric_info.name
    return {
        f"fold {fold}": [(line.epoch, line.scores[name]) for line in run["log"] if name in line.scores]
        for fold, run in enumerate(runs, start=1)
    }


def curves_chart(
    runs: Mapping[str, Sequence[tuple[int, float]]], metric_info: MetricInfo | None
) -> Markup | None:
    """Return a chart of validation scores by epoch, a line per run; None before the first evaluation."""
    if metric_info is None:
        return None
    traces = []
    for color, (name, points) in enumerate(runs.items()):
        if points:
            x, y = tuple(float(e) for e, _ in points), tuple(metric_info.scale * s for _, s in points)
            traces.append(Trace(name, x, y, "joined", color))
    if not traces:
        return None
    title = f"Validation {metric_info.axis}, one line per run"
    return embed_chart(
        PanelChart(title, Axis(metric_info.axis), (Panel(Axis("epoch", integer_ticks=True), tuple(traces)),))
    )


def choose_page(states: Sequence[ExperimentState], search: bool) -> str:
    """Return the page that asks for experiments to compare."""
    return _page("choose.html", search=search, states=[s for s in states if s.record is not None])


def side_by_side_frame(search: bool) -> tuple[str, str]:
    """Return what stands before and after the content of the page side by side."""
    before, _, after = _page("side_by_side_frame.html", search=search, mark=FRAME_MARK).partition(FRAME_MARK)
    return before, after


def side_by_side_content(
    chosen: Sequence[ExperimentState], experiments: Sequence[Analysis], metrics: Sequence[str]
) -> str:
    """Return tables, verdicts, ranks and published numbers of experiments.

    Args:
        chosen: State of each experiment.
        experiments: Analysis of each experiment, for the same setting and metric.
        metrics: Metrics to choose from.
    """
    overall = compare_experiments(experiments)
    diagram = None
    # a critical difference as large as all ranks together says nothing
    if overall.test is not None and overall.test.critical_difference < len(overall.test.mean_ranks) - 1:
        diagram = embed_figure(critical_difference_diagram(overall.test))
    return _page(
        "side_by_side.html",
        chosen=chosen,
        metric_info=experiments[0].metric_info,
        setting=experiments[0].setting,
        settings=SETTINGS,
        metric=experiments[0].metric,
        metrics=metrics,
        experiments=[
            {
                "state": state,
                "leaky": analysis.comparison.leaky,
                "conclusion": conclude_experiment(analysis),
                "means": means_table(analysis),
                "pairs": [(pair.verdict, pair.sentence) for pair in analysis.pairs],
                "caveats": analysis.caveats,
                "published": published_comparison_tables(analysis),
            }
            for state, analysis in zip(chosen, experiments, strict=True)
        ],
        overall=overall,
        experiments_table=experiments_table(overall),
        diagram=diagram,
        repeated=find_repeated_pairs(experiments),
    )


def common_metrics(chosen: Sequence[ExperimentState]) -> list[str]:
    """Return the metrics that all experiments have; the selection metric of the first comes first."""
    lists = [state.record.experiment.metrics for state in chosen if state.record is not None]
    if len(lists) < len(chosen) or chosen[0].record is None:
        return []
    first = chosen[0].record.experiment
    wanted = dict.fromkeys((first.training.metric, *first.metrics))
    return [metric for metric in wanted if all(metric in found for found in lists)]


def search_page(
    indexes: Sequence[IndexFacts],
    *,
    examples: Sequence[int],
    neighbors: int,
    rerankings: Sequence[str],
    limit: int,
    has_experiments: bool,
) -> str:
    """Return the page of the image search.

    Args:
        indexes: Descriptions of the indexes.
        examples: Rows of the first index to begin with.
        neighbors: Default number of neighbors.
        rerankings: Names of the re-ranking methods.
        limit: Largest image, in bytes.
        has_experiments: If false, the page has no links to experiments.
    """
    return _page(
        "search.html",
        search=True,
        indexes=indexes,
        columns=sorted({column for index in indexes for column in index.columns}),
        examples=examples,
        neighbors=neighbors,
        rerankings=rerankings,
        limit=limit,
        has_experiments=has_experiments,
    )
