"""Plans: describe an experiment before it runs, and keep a run to its plan.

A run that departs from its plan is refused before anything is computed, unless a reason is given. The reason
goes into the ledger, and every report shows it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import levelfield
from levelfield.config import Experiment
from levelfield.core.errors import UsageError
from levelfield.protocol.guard import append_line
from levelfield.protocol.search._search import search_id
from levelfield.protocol.spec._resolve import resolve_experiment
from levelfield.protocol.spec._resolved import ResolvedExperiment
from levelfield.records import (
    EVENT_DEPARTED,
    EVENT_PLAN,
    PLAN_SEAL,
    Preregistration,
    Store,
    dump_experiment,
    environment,
    now,
    read_preregistration,
    write_preregistration,
)

LATE = "the test set was opened before the plan was registered"


@dataclass(frozen=True)
class PlanCheck:
    """Result of the comparison of an experiment with its plan.

    Attributes:
        plan: The plan.
        departures: Differences that the ledger does not have yet.
        reason: Reason of the differences.
    """

    plan: Preregistration
    departures: tuple[str, ...]
    reason: str

    def record(self, store: Store) -> None:
        """Write the plan into the experiment directory, and plan and departures into the ledger, once."""
        seal = {PLAN_SEAL: self.plan.digest}
        if not store.plan_file.exists():
            write_preregistration(store.plan_file, self.plan)
        if not any(line.event == EVENT_PLAN for line in store.ledger()):
            note = f"Preregistered with plan {self.plan.digest}."
            append_line(store, "all", "", EVENT_PLAN, sealed=seal, note=note)
        if self.departures:
            append_line(
                store, "all", "", EVENT_DEPARTED, sealed=seal, note=self.reason, departures=self.departures
            )


def preregister(experiment: Experiment) -> Preregistration:
    """Return the plan of an experiment; its names, options and data are checked, and nothing is trained."""
    return _describe(resolve_experiment(experiment)).sign()


def check_plan(
    resolved: ResolvedExperiment, store: Store, plan: str | Path | None, depart: str | None
) -> PlanCheck | None:
    """Compare an experiment with its plan; None if there is no plan.

    Args:
        resolved: The experiment.
        store: Its records. Once it has run with a plan, the plan stays in force.
        plan: Plan file.
        depart: Reason of departures from the plan.

    Raises:
        UsageError: The experiment departs from the plan, and there is no reason.
    """
    found = _find_plan(store, plan)
    reason = " ".join((depart or "").split())
    if found is None:
        if depart is not None:
            raise UsageError("--depart needs a plan to depart from; give it with --plan")
        return None
    if depart is not None and not reason:
        raise UsageError('--depart needs a reason, such as --depart "two methods failed to converge"')
    ledger = store.ledger()
    departures = found.departures(_describe(resolved))
    if any(line.selection for line in ledger) and not any(line.event == EVENT_PLAN for line in ledger):
        departures.append(LATE)
    recorded = {departure for line in ledger for departure in line.departures}
    new = tuple(departure for departure in departures if departure not in recorded)
    if new and not reason:
        raise UsageError(
            f"the experiment departs from its plan {found.digest} ({'; '.join(new)}); run it as planned, or "
            'give --depart "reason", which every report shows'
        )
    return PlanCheck(found, new, reason)


def _find_plan(store: Store, given: str | Path | None) -> Preregistration | None:
    """Return the given plan, or the one that the directory already runs under."""
    plan = None if given is None else read_preregistration(Path(given))
    kept = read_preregistration(store.plan_file) if store.plan_file.exists() else None
    named = next((line.sealed[PLAN_SEAL] for line in store.ledger() if line.event == EVENT_PLAN), None)
    known = named or (kept.digest if kept is not None else None)
    if plan is not None and known is not None and plan.digest != known:
        raise UsageError(
            f"{store.root} runs under plan {known}, not under {given} ({plan.digest}); "
            "choose a new --out directory"
        )
    if plan is None and kept is None and named is not None:
        raise UsageError(
            f"{store.root} runs under plan {named}, but its plan.json is missing; give it with --plan"
        )
    return plan or kept


def _describe(resolved: ResolvedExperiment) -> Preregistration:
    """Return the plan of a resolved experiment, without its digest."""
    experiment = resolved.experiment
    return Preregistration(
        name=experiment.name,
        created=now(),
        levelfield=levelfield.__version__,
        commit=environment().commit,
        dataset=resolved.data.name,
        fingerprint=resolved.data.fingerprint,
        methods=tuple(method.name for method in resolved.methods),
        seed=experiment.seed,
        budget={
            "searches": experiment.search.repeats,
            "trials": experiment.search.trials,
            "folds": resolved.num_folds,
            "reruns": experiment.confirm.reruns,
        },
        searches={
            method.name: tuple(search_id(repeat, method) for repeat in resolved.repeats)
            for method in resolved.methods
        },
        plugins=dict(resolved.plugins),
        experiment=dump_experiment(experiment),
    )
