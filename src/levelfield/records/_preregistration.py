"""Plan of an experiment, written before it runs: methods, budgets, seeds, data and code, with a digest.

Publish the plan, or its digest, before the experiment runs. Then everybody can see later what was changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from levelfield.config import Experiment
from levelfield.core import files
from levelfield.core.errors import RunError, UsageError
from levelfield.records._digest import long_digest
from levelfield.records._models import Record, dump_experiment
from levelfield.records._parse import read_record

OLD_DIGITS = 16  # of the digests of plans before version 0.2
# Settings that no score depends on.
FREE_SETTINGS = ("name", "preset", "confirm.gallery")


class Preregistration(Record):
    """Plan of an experiment.

    Attributes:
        name: Name of the experiment.
        created: Time in UTC.
        levelfield: Version of levelfield.
        commit: Commit of levelfield; a note for readers, not binding.
        dataset: Name of the dataset.
        fingerprint: Digest of the dataset's content.
        methods: Names of the methods.
        seed: Seed of the experiment, which all other seeds follow from.
        budget: Numbers of searches per method, trials per search, folds per trial, and reruns per search.
        searches: Digests of each method's searches, which cover its parts, search space and protocol.
        plugins: Digest of each plug-in.
        experiment: The whole experiment, as ``experiment.json`` records it.
        digest: Digest of everything above.
    """

    name: str
    created: str
    levelfield: str
    commit: str | None
    dataset: str
    fingerprint: str
    methods: tuple[str, ...]
    seed: int
    budget: dict[str, int]
    searches: dict[str, tuple[str, ...]]
    plugins: dict[str, str] = Field(default_factory=dict)
    experiment: dict[str, Any]
    digest: str = ""

    def compute_digest(self) -> str:
        """Return the digest of the plan's content: 64 digits, so that no second plan can fit it."""
        return long_digest(self.model_dump(mode="json", exclude={"digest"}))

    def sign(self) -> Preregistration:
        """Return the plan with its digest."""
        return self.model_copy(update={"digest": self.compute_digest()})

    def departures(self, other: Preregistration) -> list[str]:
        """Return a phrase for each difference of ``other``, an experiment as it is, from this plan."""
        found = [
            _phrase(name, planned, present)
            for name, planned, present in _differences(_current(self), _current(other))
            if name not in FREE_SETTINGS
        ]
        for name in ("fingerprint", "levelfield"):
            if getattr(self, name) != getattr(other, name):
                found.append(_phrase(name, getattr(self, name), getattr(other, name)))
        if self.budget["folds"] != other.budget["folds"]:
            found.append(_phrase("folds", self.budget["folds"], other.budget["folds"]))
        for method, searches in self.searches.items():
            if method in other.searches and other.searches[method] != searches and not found:
                found.append(f"the searches of {method} are not the planned ones")
        for name in sorted(self.plugins.keys() | other.plugins.keys()):
            if self.plugins.get(name) != other.plugins.get(name):
                found.append(f"plug-in {name} is not the planned version")
        return found


def read_preregistration(file: Path) -> Preregistration:
    """Return the plan in ``file``; raise UsageError if there is none, or if it was changed."""
    if not file.is_file():
        raise UsageError(
            f"there is no plan {file}; write one with `levelfield preregister EXPERIMENT -o {file}`"
        )
    try:
        plan = read_record(Preregistration, file)
    except RunError as error:
        reason = str(error).partition(";")[0]
        raise UsageError(
            f"{reason}; restore the plan, or write a new one with `levelfield preregister`"
        ) from error
    known = (OLD_DIGITS, len(plan.compute_digest()))
    if len(plan.digest) not in known or not plan.compute_digest().startswith(plan.digest):
        raise UsageError(f"plan {file} was changed after it was written: its digest does not fit; restore it")
    return plan


def write_preregistration(file: Path, plan: Preregistration) -> None:
    """Write a plan."""
    files.write_json(file, plan.model_dump(mode="json"), remedy="make room or choose another file")


def _current(plan: Preregistration) -> dict[str, Any]:
    """Return the experiment of a plan with all fields of this version, for a plan of an earlier one."""
    return dump_experiment(Experiment.model_validate(plan.experiment))


def _phrase(name: str, planned: object, present: object) -> str:
    return f"{name} is {_show(present)}, planned was {_show(planned)}"


def _show(value: object) -> str:
    return "absent" if value is None else str(value)


def _differences(planned: Any, present: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the path, planned and present value of each difference; methods are found by their name."""
    if isinstance(planned, Mapping) and isinstance(present, Mapping):
        for key in dict.fromkeys((*planned, *present)):
            yield from _differences(planned.get(key), present.get(key), f"{name}.{key}" if name else str(key))
    elif name == "methods":
        one, other = ({m["name"]: m for m in methods} for methods in (planned, present))
        for method in dict.fromkeys((*one, *other)):
            if method not in one or method not in other:
                is_planned = "present" if method in one else None
                yield f"method {method}", is_planned, "present" if method in other else None
            else:
                yield from _differences(one[method], other[method], f"method {method}")
    elif planned != present:
        yield name, planned, present
