"""Search luck: one method searched several times with fresh seeds, and compared with itself.

Every difference between the searches is a false alarm, because the method is the same. A comparison that
searches each method once would report it as a difference between methods.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, stdev

from levelfield.analysis import (
    Comparison,
    Confirmation,
    MethodResult,
    MetricInfo,
    compare_methods,
    metric_info,
    read_comparison,
    read_confirmation,
)
from levelfield.config import Experiment
from levelfield.core.errors import UsageError, did_you_mean
from levelfield.protocol import ProgressCallback, run_protocol
from levelfield.records import SEARCH_LUCK_FILE, SearchLuck, write_json, write_text
from levelfield.reports import Table

SETTING = "concatenated"


def run_study(
    experiment: Experiment,
    out: Path,
    *,
    method: str | None = None,
    repeats: int = 5,
    progress: ProgressCallback | None = None,
) -> SearchLuck:
    """Search one method ``repeats`` times and write ``search-luck.md`` and ``.json`` into ``out``.

    Args:
        experiment: Experiment with the method, search and reruns. Finished work in ``out/runs`` is not
            repeated.
        out: Directory of the records and tables.
        method: Name of the method. Defaults to the first method of the experiment.
        repeats: Number of searches; at least 2.
        progress: Called with progress events.
    """
    if repeats < 2:
        raise UsageError(
            f"search-luck compares searches with each other; set --repeats to 2 or more, got {repeats}"
        )
    root = run_protocol(with_one_method(experiment, method, repeats), out / "runs", progress=progress)
    comparison = read_comparison(root)
    (result,) = comparison.trained
    found = compute_search_luck(root, comparison, result)
    write_text(out / "search-luck.md", as_markdown(found, metric_info(experiment.training.metric)))
    write_json(out / SEARCH_LUCK_FILE, found.model_dump(mode="json"))
    return found


def with_one_method(experiment: Experiment, method: str | None, repeats: int) -> Experiment:
    """Return the experiment with one method and several searches."""
    names = [found.name for found in experiment.methods]
    wanted = method or names[0]
    if wanted not in names:
        raise UsageError(f'the experiment has no method "{wanted}"{did_you_mean(wanted, names)}')
    metrics = tuple(dict.fromkeys((*experiment.metrics, experiment.training.metric)))
    return experiment.model_copy(
        update={
            "methods": tuple(found for found in experiment.methods if found.name == wanted),
            "search": experiment.search.model_copy(update={"repeats": repeats}),
            "metrics": metrics,
        }
    )


def compute_search_luck(root: Path, comparison: Comparison, result: MethodResult) -> SearchLuck:
    """Judge the searches of one method as if they were different methods."""
    experiment, info = comparison.experiment, comparison.metric_infos[comparison.experiment.training.metric]
    confirmation = read_confirmation(root, result)
    searches: dict[str, Confirmation] = {}
    for (search, rerun), record in confirmation.reruns.items():
        own = searches.setdefault(f"search {search + 1}", Confirmation({}, {}))
        own.reruns[0, rerun] = record
        if (search, rerun) in confirmation.arrays:
            own.arrays[0, rerun] = confirmation.arrays[search, rerun]
    scores = [list(own.scores(SETTING, info.name).values()) for own in searches.values()]
    judged = compare_methods(searches, SETTING, info)
    pairs = [] if judged is None else judged.pairs
    spreads = [stdev(own) ** 2 for own in scores if len(own) > 1]
    means = tuple(fmean(own) for own in scores)
    return SearchLuck(
        dataset=experiment.dataset.name,
        trunk=experiment.trunk.name,
        mode=experiment.trunk.mode,
        method=result.method,
        metric=info.name,
        trials=len(result.trials),
        reruns=max(len(own) for own in scores),
        means=means,
        between=stdev(means) if len(means) > 1 else 0.0,
        within=fmean(spreads) ** 0.5 if spreads else 0.0,
        pairs=len(pairs),
        different=sum(pair.verdict in ("better", "worse") for pair in pairs),
    )


def as_markdown(luck: SearchLuck, info: MetricInfo) -> str:
    """Return the study as text and one table."""
    rows = [[f"search {number}", info.shown(mean)] for number, mean in enumerate(luck.means, 1)]
    table = Table.from_rows(["search", f"{SETTING} {info.label}"], rows)
    false_alarm = ": a false alarm caused by luck in the search" if luck.different else ""
    return (
        f"# Search luck of {luck.method}\n\n"
        f"{len(luck.means)} searches of {luck.trials} trials, {luck.reruns} reruns each. The scores of the "
        f"searches have a standard deviation of {info.shown(luck.between)}; one rerun within a search has "
        f"{info.shown(luck.within)}. Judged as if they were methods, {luck.different} of {luck.pairs} pairs "
        f"of searches are called different{false_alarm}.\n\n" + table.markdown() + "\n"
    )
