"""Search luck: one method against itself, searched several times with fresh seeds.

Every difference that is found between the searches is a false alarm: the method is the same. A comparison
that searches each method once would have sold it as a difference between methods.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, stdev

from levelfield.compare import (
    Comparison,
    Confirmation,
    Measure,
    Result,
    collect,
    judge_methods,
    measure,
    read_confirmation,
)
from levelfield.config import Experiment
from levelfield.errors import UsageError, did_you_mean
from levelfield.protocol import Progress
from levelfield.protocol import run as run_protocol
from levelfield.records import SEARCH_LUCK_FILE, SearchLuck, write_json, write_text
from levelfield.reports import Table

SETTING = "concatenated"


def run(
    experiment: Experiment,
    out: Path,
    *,
    method: str | None = None,
    repeats: int = 5,
    progress: Progress | None = None,
) -> SearchLuck:
    """Search one method ``repeats`` times and write ``search-luck.md`` and ``.json`` into ``out``.

    Args:
        experiment: Its methods, search and reruns; finished work in ``out/runs`` is not done again.
        out: Folder of the records and tables.
        method: Which of the experiment's methods; the first one by default.
        repeats: How many searches; at least 2.
        progress: Is told of each finished run.
    """
    if repeats < 2:
        raise UsageError(
            f"search-luck compares searches with each other; --repeats {repeats} must be 2 or more"
        )
    root = run_protocol(of_one_method(experiment, method, repeats), out / "runs", progress=progress)
    comparison = collect(root)
    (result,) = comparison.trained
    found = luck_of(root, comparison, result)
    write_text(out / "search-luck.md", as_markdown(found, measure(experiment.training.metric)))
    write_json(out / SEARCH_LUCK_FILE, found.model_dump(mode="json"))
    return found


def of_one_method(experiment: Experiment, method: str | None, repeats: int) -> Experiment:
    """The experiment with one method and several searches."""
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


def luck_of(root: Path, comparison: Comparison, result: Result) -> SearchLuck:
    """Judge the searches of one method as if they were methods of their own."""
    experiment, of = comparison.experiment, comparison.measures[comparison.experiment.training.metric]
    confirmation = read_confirmation(root, result)
    searches: dict[str, Confirmation] = {}
    for (search, rerun), record in confirmation.reruns.items():
        own = searches.setdefault(f"search {search + 1}", Confirmation({}, {}))
        own.reruns[0, rerun] = record
        if (search, rerun) in confirmation.arrays:
            own.arrays[0, rerun] = confirmation.arrays[search, rerun]
    scores = [list(own.scores(SETTING, of.name).values()) for own in searches.values()]
    judged = judge_methods(searches, SETTING, of)
    pairs = [] if judged is None else judged.pairs
    spreads = [stdev(own) ** 2 for own in scores if len(own) > 1]
    means = tuple(fmean(own) for own in scores)
    return SearchLuck(
        dataset=experiment.dataset.name,
        trunk=experiment.trunk.name,
        mode=experiment.trunk.mode,
        method=result.method,
        metric=of.name,
        trials=len(result.trials),
        reruns=max(len(own) for own in scores),
        means=means,
        between=stdev(means) if len(means) > 1 else 0.0,
        within=fmean(spreads) ** 0.5 if spreads else 0.0,
        pairs=len(pairs),
        different=sum(pair.verdict in ("better", "worse") for pair in pairs),
    )


def as_markdown(luck: SearchLuck, of: Measure) -> str:
    """The study in words and one table."""
    rows = [[f"search {number}", of.shown(mean)] for number, mean in enumerate(luck.means, 1)]
    table = Table.of(["search", f"{SETTING} {of.label}"], rows)
    sold = ": that is luck in the search, sold as a difference" if luck.different else ""
    return (
        f"# Search luck of {luck.method}\n\n"
        f"{len(luck.means)} searches of {luck.trials} trials, {luck.reruns} reruns each. The scores of the "
        f"searches have a standard deviation of {of.shown(luck.between)}; one rerun within a search has "
        f"{of.shown(luck.within)}. Judged as if they were methods, {luck.different} of {luck.pairs} pairs of "
        f"searches are called different{sold}.\n\n"
        + table.markdown()
        + "\n"
    )
