"""Checks against what is kept outside the experiment directory: an anchor of the ledger, and a plan.

They find what the directory alone cannot prove wrong: a consistent rewrite, a method or search that was left
out, another seed, a later date.
"""

from __future__ import annotations

from pathlib import Path

from levelfield.analysis._results import Comparison, read_comparison
from levelfield.records import (
    EVENT_DEPARTED,
    EVENT_PLAN,
    PLAN_SEAL,
    Anchor,
    Preregistration,
    Store,
    compute_record_seal,
    dump_experiment,
    read_anchor,
    read_preregistration,
)

Findings = tuple[list[str], list[str]]  # problems, notes


def check_outside(
    root: str | Path, *, plan: str | Path | None = None, anchor: str | Path | None = None
) -> Findings:
    """Return problems and notes from the comparison of an experiment with its plan and its anchor.

    Args:
        root: Experiment directory.
        plan: Plan file. Defaults to the copy in the directory, if there is one.
        anchor: Anchor file, or the digest of a ledger line.
    """
    store = Store(Path(root))
    problems: list[str] = []
    notes: list[str] = []
    if anchor is not None:
        problems, notes = _check_anchor(store, read_anchor(anchor))
    if plan is None and store.plan_file.exists():
        plan = store.plan_file
    if plan is not None:
        more_problems, more_notes = _check_plan(
            store, read_comparison(root), read_preregistration(Path(plan))
        )
        problems, notes = problems + more_problems, notes + more_notes
    elif any(line.event == EVENT_PLAN for line in store.ledger()):
        notes.append("the experiment was run with a plan that is not here; give it with --plan")
    return problems, notes


def _check_anchor(store: Store, anchor: Anchor) -> Findings:
    lines = [line.line_id for line in store.ledger()]
    if anchor.digest not in lines or (anchor.lines or lines.index(anchor.digest) + 1) != (
        lines.index(anchor.digest) + 1
    ):
        problem = f"the ledger does not have the anchored line {anchor.digest}"
        return [
            f"{problem}: it was rewritten or cut after the anchor, or the anchor is of another experiment"
        ], []
    problems = [
        f"{name} is not what was anchored"
        for name, value in anchor.records.items()
        if compute_record_seal(store, name) != value
    ]
    later = len(lines) - lines.index(anchor.digest) - 1
    notes = [f"{later} ledger line{'' if later == 1 else 's'} later than the anchor"] if later else []
    return problems, notes


def _check_plan(store: Store, comparison: Comparison, plan: Preregistration) -> Findings:
    problems, notes = _check_registration(comparison, plan)
    reasons = {
        departure: line.note
        for line in comparison.ledger
        if line.event == EVENT_DEPARTED and line.sealed.get(PLAN_SEAL) == plan.digest
        for departure in line.departures
    }
    for departure in plan.departures(_describe(store, comparison, plan)):
        if departure in reasons:
            notes.append(f"departs from the plan: {departure}; the reason given is: {reasons[departure]}")
        else:
            problems.append(f"departs from the plan, without a reason on record: {departure}")
    commits = {line.commit for line in comparison.ledger} - {plan.commit}
    if commits:
        shown = ", ".join(sorted(commit or "unknown" for commit in commits))
        notes.append(
            f"the plan was written with levelfield's commit {plan.commit or 'unknown'}, run with {shown}"
        )
    return problems, notes


def _check_registration(comparison: Comparison, plan: Preregistration) -> Findings:
    """Check that the ledger names the plan, and does so before the first opening."""
    named = [n for n, line in enumerate(comparison.ledger) if line.event == EVENT_PLAN]
    opened = [n for n, line in enumerate(comparison.ledger) if line.selection]
    problems, notes = [], []
    if not named:
        notes.append("the ledger names no plan; the records were compared with its content")
        if opened and plan.created > comparison.ledger[opened[0]].time:
            problems.append("the plan was written after the test set was opened")
    elif comparison.ledger[named[0]].sealed.get(PLAN_SEAL) != plan.digest:
        problems.append(f"the ledger names another plan than {plan.digest}")
    elif opened and named[0] > opened[0]:
        problems.append("the plan was registered after the test set was opened")
    return problems, notes


def _describe(store: Store, comparison: Comparison, plan: Preregistration) -> Preregistration:
    """Return the experiment on record in the form of a plan; what records do not state is as planned."""
    index = store.experiment_record()
    experiment = comparison.experiment
    data = [
        repeat.search.run.data
        for r in comparison.trained
        for repeat in r.repeats
        if repeat.search is not None
    ]
    folds = [len(x.runs) for r in comparison.trained for repeat in r.repeats for x in repeat.scored if x.runs]
    return plan.model_copy(
        update={
            "fingerprint": data[0].fingerprint if data else plan.fingerprint,
            "budget": plan.budget | ({"folds": max(folds)} if folds else {}),
            "searches": index.searches,
            "plugins": index.plugins,
            "experiment": dump_experiment(experiment),
        }
    )
