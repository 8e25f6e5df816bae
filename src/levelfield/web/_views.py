"""The pages of the server as HTML, made from states and records."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from levelfield.compare import Measure, compare_across, weigh
from levelfield.errors import UsageError
from levelfield.records import RunFolder, Store, Trial
from levelfield.reports import across_table, beside_published_tables, means_table, render_report
from levelfield.reports.figures import Axis, Panel, PanelChart, Trace
from levelfield.reports.figures.search import history
from levelfield.reports.pages import drawing, page_resources, plot
from levelfield.stats import critical_difference_diagram
from levelfield.web._folder import ExperimentState, known_trials
from levelfield.web._live import flying_runs, folds_of, pace_of, shown_time

PAGE = 50  # trials on one page
KEPT_REPORTS = 8
SETTINGS = ("concatenated", "separated")


@cache
def environment() -> jinja2.Environment:
    """Templates whose values are escaped; a value that is missing is an error."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("levelfield.web", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


@cache
def live_script() -> str:
    """The script of pages that update themselves."""
    return (resources.files("levelfield.web") / "assets" / "live.js").read_text(encoding="utf-8")


def _page(template: str, *, search: bool = False, **values: Any) -> str:
    return (
        environment()
        .get_template(template)
        .render(resources=page_resources("/assets/"), has_search=search, shown_time=shown_time, **values)
    )


def message_page(title: str, text: str) -> str:
    """A page that says one thing."""
    return _page("message.html", title=title, text=text)


def home_page(states: Sequence[ExperimentState], version: str, search: bool) -> str:
    """All experiments."""
    return _page("home.html", search=search, listing=Markup(listing(states, version)), count=len(states))


def listing(states: Sequence[ExperimentState], version: str) -> str:
    """The table of experiments."""
    return _page("listing.html", states=states, version=version)


def live_page(state: ExperimentState, search: bool) -> str:
    """An experiment that is not finished; what changes is fetched again and again."""
    version, fragment = live_state(state, since="")
    return _page("live.html", search=search, state=state, version=version, fragment=Markup(fragment))


def live_state(state: ExperimentState, *, since: str) -> tuple[str, str]:
    """What changes on the live page, and its version; nothing if that is ``since``."""
    flying = flying_runs(state) if state.state == "running" else []
    version = hashlib.sha256(f"{state.version}{flying}".encode()).hexdigest()[:16]
    if version == since:
        return version, ""
    if state.index is None or state.measure is None:
        return version, _page("live_state.html", state=state, pace=None, flying=[], curves=None, charts=[])
    store = Store(state.root)
    pace = pace_of(state, folds=folds_of(state, store))
    searches = state.index.experiment.search.repeats
    chart = history(_searches(state, store), measure=state.measure, searches=searches)
    return version, _page(
        "live_state.html",
        state=state,
        pace=pace,
        flying=flying,
        curves=curves({f"{run.what} ({run.run_id[:6]})": run.curve for run in flying}, state.measure),
        charts=[plot(chart)],
    )


def _searches(state: ExperimentState, store: Store) -> dict[str, list[Trial]]:
    """The first search of each method, trial by trial."""
    assert state.index is not None
    searches = state.index.searches
    names = [method.name for method in state.index.experiment.methods]
    return {name: known_trials(store, searches[name][0], {}) for name in names if searches.get(name)}


class ReportCache:
    """The last few reports; one is made anew when its experiment's files have changed."""

    def __init__(self) -> None:
        self._pages: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()

    def page(self, state: ExperimentState) -> str:
        """The report of an experiment."""
        with self._lock:
            version, text = self._pages.pop(state.key, ("", ""))
            if version != state.version:
                text = render_report(weigh(state.root), assets="/assets/", home="/")
            self._pages[state.key] = (state.version, text)
            while len(self._pages) > KEPT_REPORTS:
                self._pages.pop(next(iter(self._pages)))
            return text


def trials_page(state: ExperimentState, method: str, number: int, search: bool) -> str:
    """The trials of one method, ``PAGE`` at a time, newest last."""
    assert state.index is not None
    store = Store(state.root)
    found = [
        (which, name, trial)
        for which, name in enumerate(state.index.searches[method])
        for trial in known_trials(store, name, {})
    ]
    pages = max(1, -(-len(found) // PAGE))
    number = min(max(1, number), pages)
    return _page(
        "trials.html",
        search=search,
        state=state,
        method=method,
        several=len(state.index.searches[method]) > 1,
        trials=found[(number - 1) * PAGE : number * PAGE],
        number=number,
        pages=pages,
        shown=_shown(state.measure),
    )


def _shown(measure: Measure | None) -> Any:
    def shown(value: float | None) -> str:
        if value is None:
            return "-"
        return f"{value:.4f}" if measure is None else measure.shown(value)

    return shown


def find_trial(state: ExperimentState, search: str, number: int) -> tuple[str, Trial] | None:
    """A trial of an experiment and the method it belongs to; None if there is none.

    The search must be one that the index names: an address cannot reach another file.
    """
    for method, searches in {} if state.index is None else state.index.searches.items():
        if search in searches and 0 <= number < 10_000:
            trial = Store(state.root).trial(search, number)
            return None if trial is None else (method, trial)
    return None


def trial_page(state: ExperimentState, method: str, search_id: str, trial: Trial, search: bool) -> str:
    """One trial: what was tried, how each fold went, its logs."""
    runs_folder = (state.root / "runs").resolve()
    folders = [
        RunFolder(path)
        for name in trial.runs
        if (path := (runs_folder / name).resolve()).is_relative_to(runs_folder) and path.is_dir()
    ]
    runs = [
        {
            "name": folder.path.name,
            "result": folder.result(),
            "provenance": folder.provenance(),
            "log": folder.log(),
            "spec": folder.spec().model_dump_json(indent=2) if (folder.path / "spec.json").exists() else "",
        }
        for folder in folders
    ]
    return _page(
        "trial.html",
        search=search,
        state=state,
        method=method,
        search_id=search_id,
        trial=trial,
        runs=runs,
        curve=curves(_by_fold(state.measure, runs), state.measure),
        shown=_shown(state.measure),
    )


def _by_fold(measure: Measure | None, runs: Sequence[dict[str, Any]]) -> dict[str, list[tuple[int, float]]]:
    name = "" if measure is None else measure.name
    return {
        f"fold {fold}": [(line.epoch, line.scores[name]) for line in run["log"] if name in line.scores]
        for fold, run in enumerate(runs, start=1)
    }


def curves(runs: Mapping[str, Sequence[tuple[int, float]]], measure: Measure | None) -> Markup | None:
    """Validation score against the epoch, a line per run; None before the first measurement."""
    if measure is None:
        return None
    traces = []
    for colour, (name, points) in enumerate(runs.items()):
        if points:
            x, y = tuple(float(e) for e, _ in points), tuple(measure.scale * s for _, s in points)
            traces.append(Trace(name, x, y, "joined", colour))
    if not traces:
        return None
    title = f"Validation {measure.axis}, one line per run"
    return plot(PanelChart(title, Axis(measure.axis), (Panel(Axis("epoch", whole=True), tuple(traces)),)))


def side_by_side(
    chosen: Sequence[ExperimentState],
    states: Sequence[ExperimentState],
    metric: str | None,
    setting: str | None,
    search: bool,
) -> str:
    """Experiments side by side: their tables, what differs, their ranks, and published numbers."""
    if len(chosen) < 2:
        return _page("choose.html", search=search, states=[s for s in states if s.index is not None])
    setting = setting if setting in SETTINGS else SETTINGS[0]
    metrics = _common_metrics(chosen)
    if not metrics:
        raise UsageError("these experiments have no metric in common; choose others")
    if metric not in metrics:
        metric = metrics[0]
    experiments = [weigh(state.root, setting=setting, metric=metric) for state in chosen]
    across = compare_across(experiments)
    diagram = None
    if across.test is not None:
        diagram = drawing(critical_difference_diagram(across.test))
    return _page(
        "side_by_side.html",
        search=search,
        chosen=chosen,
        measure=experiments[0].measure,
        setting=setting,
        settings=SETTINGS,
        metric=metric,
        metrics=metrics,
        experiments=[
            {
                "state": state,
                "leaky": evidence.comparison.leaky,
                "means": means_table(evidence),
                "findings": [(finding.verdict, finding.sentence) for finding in evidence.findings],
                "caveats": evidence.caveats,
                "published": beside_published_tables(evidence),
            }
            for state, evidence in zip(chosen, experiments, strict=True)
        ],
        across=across,
        across_table=across_table(across),
        diagram=diagram,
    )


def _common_metrics(chosen: Sequence[ExperimentState]) -> list[str]:
    """The metrics of all chosen experiments; that of the first one's selection before the others."""
    lists = [state.index.experiment.metrics for state in chosen if state.index is not None]
    if len(lists) < len(chosen) or chosen[0].index is None:
        return []
    first = chosen[0].index.experiment
    wanted = dict.fromkeys((first.training.metric, *first.metrics))
    return [metric for metric in wanted if all(metric in found for found in lists)]


def search_page(indexes: Sequence[tuple[str, int]], limit: int, has_experiments: bool) -> str:
    """The search box over indexes, given by their titles and sizes; ``limit`` in bytes."""
    return _page("search.html", search=True, indexes=indexes, limit=limit, has_experiments=has_experiments)
