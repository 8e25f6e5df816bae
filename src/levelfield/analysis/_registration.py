"""Plan that an experiment was run by, and its departures from the plan, as the records have them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from levelfield.records import EVENT_DEPARTED, EVENT_PLAN, PLAN_SEAL, Store, read_preregistration


@dataclass(frozen=True)
class Registration:
    """Plan of an experiment.

    Attributes:
        digest: Digest of the plan; empty if there was none.
        created: Date of the plan; empty if the plan itself is not on record.
        departures: Differences from the plan with their reason, one sentence each.
    """

    digest: str = ""
    created: str = ""
    departures: tuple[str, ...] = ()


def read_registration(root: str | Path) -> Registration:
    """Return the plan of an experiment; :func:`verify` compares it with the records.

    Args:
        root: Experiment directory, or an archive of it.
    """
    store = Store(Path(root))
    ledger = store.ledger()
    digest = next((line.sealed.get(PLAN_SEAL, "") for line in ledger if line.event == EVENT_PLAN), "")
    created = ""
    if store.plan_file.exists():
        plan = read_preregistration(store.plan_file)
        digest, created = digest or plan.digest, plan.created[:10]
    departures = tuple(
        f"{'; '.join(line.departures)} (reason: {line.note})"
        for line in ledger
        if line.event == EVENT_DEPARTED
    )
    return Registration(digest, created, departures)
