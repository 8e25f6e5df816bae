"""Why, and how far, the numbers can be trusted: budgets, seeds, versions, and what may be concluded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from levelfield.compare import Evidence
from levelfield.records import Provenance, RunFolder, Store
from levelfield.reports.table import Cell, Column, Row, Table, plain

SHOWN_VERSIONS = ("torch", "torchvision", "timm", "numpy")


def conclusions(evidence: Evidence, findings: list[str]) -> tuple[list[str], list[str]]:
    """What can be concluded, and what cannot, in plain sentences.

    Args:
        evidence: The experiment.
        findings: What :func:`levelfield.compare.verify` found wrong with its records.
    """
    comparison, experiment = evidence.comparison, evidence.comparison.experiment
    if findings:
        return [], ["The records do not fit together (see above). Conclude nothing until that is cleared up."]
    can, cannot = [], []
    decided = [f for f in evidence.findings if f.verdict not in ("undecided", "equivalent")]
    measure = f"{evidence.setting} {evidence.measure.label}"
    if evidence.findings:
        can.append(f"In {measure}, {len(decided)} of {len(evidence.findings)} pairs of methods differ.")
    baseline = comparison.baseline
    leaders = [
        method
        for method in evidence.means
        if method in evidence.leaders[evidence.setting, evidence.metric] and method != baseline
    ]
    if len(leaders) == 1:
        can.append(f"{leaders[0]} is the only one that no other was found better than.")
    elif leaders:
        can.append(f"No method was found better than {', '.join(leaders[:-1])} or {leaders[-1]}.")
    equivalent = sum(f.verdict == "equivalent" for f in evidence.findings)
    if equivalent:
        can.append(f"In {equivalent} pairs the two are equivalent: surely closer than what matters.")
    undecided = len(evidence.findings) - len(decided) - equivalent
    if undecided:
        cannot.append(
            f"That the methods of the {undecided} undecided pairs are equal: it is no proof of equality."
        )
    cannot += [f"More than this allows: {caveat}" for caveat in evidence.caveats]
    if comparison.leaky:
        cannot.append(
            "How well any of this does on new data: hyperparameters were chosen with test feedback."
        )
    trunk = f"{experiment.trunk.name} ({experiment.trunk.mode})"
    cannot.append(
        f"What holds on other data than {experiment.dataset.name}, with another network than {trunk}, with "
        f"other batches or embedding sizes, or after a search of more than {experiment.search.trials} trials."
    )
    if len({len(result.trials) for result in comparison.trained}) > 1:
        cannot.append("Whether a method with the smaller budget of trials would have caught up.")
    return can, cannot


def budget_table(evidence: Evidence) -> Table:
    """What each method was given and what came of it."""
    store, rows = Store(evidence.root), []
    for result in evidence.comparison.trained:
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
        minutes = Cell(f"{sum(seconds) / 60:.1f}", value=sum(seconds) / 60) if seconds else Cell("-")
        rows.append(Row((Cell(result.method), *map(plain, numbers), minutes)))
    heads = ("searches", "trials", "runs", "diverged", "pruned", "reruns scored", "reruns failed")
    columns = (Column("method", left=True), *map(Column, heads), Column("minutes of search"))
    return Table(columns, tuple(rows))


def surroundings_table(runs: Iterable[RunFolder]) -> Table:
    """On what, and with what, the runs were computed: one line for each that occurs."""
    counts: Counter[tuple[str, ...]] = Counter()
    for run in runs:
        found = run.provenance()
        if found is not None:
            counts[_surroundings(found)] += 1
    heads = ("python", *SHOWN_VERSIONS, "processor", "threads", "device", "levelfield's commit")
    columns = (*(Column(head, left=True) for head in heads), Column("runs"))
    rows = [Row((*map(Cell, line), plain(count))) for line, count in counts.most_common()]
    return Table(columns, tuple(rows))


def _surroundings(found: Provenance) -> tuple[str, ...]:
    versions = (found.versions.get(package) or "-" for package in SHOWN_VERSIONS)
    return (
        found.python,
        *versions,
        found.processor,
        str(found.threads),
        found.device,
        found.commit or "-",
    )
