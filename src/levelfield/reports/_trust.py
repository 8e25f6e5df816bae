"""Section "Trust" of the report: conclusions, budgets, software and hardware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from levelfield.analysis import Analysis
from levelfield.records import Provenance, RunDirectory, Store
from levelfield.reports.table import Table, TableCell, TableColumn, TableRow, plain_cell

SHOWN_VERSIONS = ("torch", "torchvision", "timm", "numpy")


def conclusions(analysis: Analysis, problems: list[str]) -> tuple[list[str], list[str]]:
    """Return sentences on what the results show, and on what they do not show.

    Args:
        analysis: Analysis of the experiment.
        problems: Inconsistencies of the records, from :func:`levelfield.analysis.verify`.
    """
    comparison, experiment = analysis.comparison, analysis.comparison.experiment
    if problems:
        return [], [
            "The records are inconsistent (see above). Do not draw conclusions until this is resolved."
        ]
    can, cannot = [], []
    decided = [f for f in analysis.pairs if f.verdict not in ("undecided", "equivalent")]
    metric = f"{analysis.setting} {analysis.metric_info.label}"
    if analysis.pairs:
        can.append(f"In {metric}, {len(decided)} of {len(analysis.pairs)} pairs of methods differ.")
    baseline = comparison.baseline
    leaders = [
        method
        for method in analysis.means
        if method in analysis.leaders[analysis.setting, analysis.metric] and method != baseline
    ]
    if len(leaders) == 1:
        can.append(f"{leaders[0]} is the only method that no other was found better than.")
    elif leaders:
        can.append(f"No method was found better than {', '.join(leaders[:-1])} or {leaders[-1]}.")
    equivalent = sum(f.verdict == "equivalent" for f in analysis.pairs)
    if equivalent:
        can.append(
            f"In {equivalent} pairs the methods are equivalent: the difference is too small to matter."
        )
    undecided = len(analysis.pairs) - len(decided) - equivalent
    if undecided:
        cannot.append(f'The methods of {undecided} other pairs may differ: "undecided" does not mean equal.')
    cannot += [f"Limit of the verdicts: {caveat}" for caveat in analysis.caveats]
    if comparison.leaky:
        cannot.append("Performance on new data is unknown: hyperparameters were chosen with test feedback.")
    trunk = f"{experiment.trunk.name} ({experiment.trunk.mode})"
    cannot.append(
        f"The results may not hold on other data than {experiment.dataset.name}, with other "
        f"trunks than {trunk}, with other batch or embedding sizes, or with more than "
        f"{experiment.search.trials} trials per search."
    )
    if len({len(result.trials) for result in comparison.trained}) > 1:
        cannot.append("A method with fewer trials might have caught up with an equal budget.")
    return can, cannot


def budget_table(analysis: Analysis) -> Table:
    """Return searches, trials, runs, failures and search time of each method."""
    store, rows = Store(analysis.root), []
    for result in analysis.comparison.trained:
        runs = [run for repeat in result.repeats for trial in repeat.trials for run in trial.runs]
        seconds = [p.seconds for p in (store.run(run).provenance() for run in runs) if p is not None]
        trials = sum(len(repeat.trials) for repeat in result.repeats)
        scored = sum(len(repeat.scored) for repeat in result.repeats)
        numbers = (
            len(result.repeats),
            trials,
            len(runs),
            result.diverged,
            result.pruned,
            scored,
            len(result.failed),
        )
        minutes = (
            TableCell(f"{sum(seconds) / 60:.1f}", value=sum(seconds) / 60) if seconds else TableCell("-")
        )
        rows.append(TableRow((TableCell(result.method), *map(plain_cell, numbers), minutes)))
    heads = ("searches", "trials", "runs", "diverged", "pruned", "reruns scored", "reruns failed")
    columns = (TableColumn("method", left=True), *map(TableColumn, heads), TableColumn("minutes of search"))
    return Table(columns, tuple(rows))


def environment_table(runs: Iterable[RunDirectory]) -> Table:
    """Return software versions and hardware of the runs, with the number of runs for each combination."""
    counts: Counter[tuple[str, ...]] = Counter()
    for run in runs:
        found = run.provenance()
        if found is not None:
            counts[_environment(found)] += 1
    heads = ("python", *SHOWN_VERSIONS, "processor", "threads", "device", "levelfield's commit")
    columns = (*(TableColumn(head, left=True) for head in heads), TableColumn("runs"))
    rows = [TableRow((*map(TableCell, line), plain_cell(count))) for line, count in counts.most_common()]
    return Table(columns, tuple(rows))


def _environment(found: Provenance) -> tuple[str, ...]:
    versions = (found.versions.get(package) or "-" for package in SHOWN_VERSIONS)
    return (
        found.python,
        *versions,
        found.processor,
        str(found.threads),
        found.device,
        found.commit or "-",
    )
