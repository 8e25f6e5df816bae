"""Tasks on a cluster, by Ray: any number of machines that share no files.

The driver owns the records. A task travels as a parcel (``_parcel.py``): with the files and plug-ins that it
needs, and the package's own code. Its files come back as bytes, and the driver writes them. A long run sends
its state back now and then, so that a lost machine costs minutes; the driver gives the task, with that state,
to another one.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from pydantic import Field

from levelfield.engine._call import unpacked
from levelfield.engine._mailbox import Mailbox
from levelfield.engine._parcel import Answer, NotHereError, dataset_parts, pack, put_in_place
from levelfield.engine._ray_cluster import connected, import_ray, in_words, near_driver, one_line, preferring
from levelfield.engine._ray_task import carry_out_parcel, machine_name, versions_here
from levelfield.engine._runner import Finished, LostTaskError, Report, Runner, Task, register
from levelfield.engine._verdicts import TRIES, Lost, Verdicts
from levelfield.errors import RunError, UsageError

LOST_MACHINES = 10  # that a task may have been on
SPARE = 1.25  # tasks held for each place, so that no place waits for the driver
LOOK_SECONDS = 2.0  # between two looks at mailbox and machines

Number = Annotated[float, Field(ge=0, le=1024)]


@register("ray")
@contextmanager
def ray_cluster(
    *,
    threads: int = 1,
    device: str = "cpu",
    address: str = "auto",
    cpus: Number | None = None,
    gpus: Number | None = None,
    resources: dict[str, float] | None = None,
    checkpoint_seconds: Annotated[float, Field(gt=0)] = 60.0,
) -> Iterator[Runner]:
    """A Ray cluster; what a run asks of it, ``cpus`` and ``gpus``, may be fractions.

    ``address`` is "auto" (the cluster that this machine belongs to), "local" (one that is started here and
    ends with the experiment) or "ray://HOST:10001".
    """
    ray = import_ray()
    on_gpu = (device == "auto" and bool(gpus)) or device.startswith("cuda")
    asked = _Asked(
        cpus=threads if cpus is None else cpus,
        gpus=(1.0 if on_gpu else 0.0) if gpus is None else gpus,
        others=dict(resources or {}),
    )
    with connected(ray, address):
        engine = RayEngine(ray, asked, checkpoint_seconds=checkpoint_seconds)
        try:
            yield engine
        finally:
            engine.end()


@dataclass(frozen=True)
class _Asked:
    """What one task asks of a machine."""

    cpus: float
    gpus: float
    others: dict[str, float]

    def all(self) -> dict[str, float]:
        found = {"CPU": self.cpus, "GPU": self.gpus, **self.others}
        return {name: amount for name, amount in found.items() if amount > 0}

    def places(self, offered: dict[str, float]) -> int:
        """How many tasks a machine with these resources takes at once."""
        return min(
            (int(offered.get(name, 0.0) / amount + 1e-9) for name, amount in self.all().items()), default=1
        )


@dataclass
class _Attempt:
    """A task, the nodes where its process died, and what was sent for it."""

    task: Task
    deaths: list[str] = field(default_factory=list)  # nodes; an empty name where it is not known
    machines: int = 0  # that were lost with it
    where: str = ""  # the node that it is on
    words: str = ""  # the last ones of its process
    sent: dict[str, list[Any]] = field(default_factory=dict)  # references to "dataset" and "weights"


class RayEngine:
    """See the module."""

    def __init__(self, ray: ModuleType, asked: _Asked, *, checkpoint_seconds: float) -> None:
        self._ray, self._asked, self._every = ray, asked, checkpoint_seconds
        self._flying: dict[Any, _Attempt] = {}
        self._put: dict[tuple[str, str], list[Any]] = {}
        self._looked = self._heard = -math.inf
        self._places = 1
        self._count_places(first=True)
        self._mailbox = ray.remote(Mailbox).options(num_cpus=0, max_restarts=-1, **near_driver(ray)).remote()
        self._function = ray.remote(carry_out_parcel)
        self._options: dict[str, Any] = {
            "num_cpus": asked.cpus,
            "num_gpus": asked.gpus,
            "resources": asked.others,
            "max_retries": 0,  # the driver tries again itself, from the newest state
            "scheduling_strategy": "SPREAD",
        }
        self._versions = versions_here()
        self._verdicts = Verdicts()

    @property
    def slots(self) -> int:
        """As many as the cluster takes at once, as it is now, and a few more."""
        self._count_places()
        return max(1, math.ceil(self._places * SPARE)) + len(self._verdicts)

    def submit(self, task: Task) -> None:
        """See :class:`levelfield.engine.Runner`."""
        self._send(_Attempt(task))

    def wait(self, timeout: float | None = None) -> list[Finished | Report]:
        """See :class:`levelfield.engine.Runner`."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        events: list[Finished | Report] = []
        while not events:
            events += self._verdicts.spoken(idle=not self._flying)
            if events or not self._flying:
                break
            left = deadline - time.monotonic()
            with one_line():
                ready, _ = self._ray.wait(
                    list(self._flying), num_returns=1, timeout=max(0.0, min(LOOK_SECONDS, left))
                )
                if ready:  # and whatever else is finished by now
                    ready, _ = self._ray.wait(list(self._flying), num_returns=len(self._flying), timeout=0)
            if time.monotonic() - self._heard > LOOK_SECONDS:  # asking costs as much as a task
                events += self._read_mailbox()
            before = len(self._verdicts)
            for reference in ready:
                events += self._receive(reference, self._flying[reference])
                del self._flying[reference]  # not before: its last words may still be in the mailbox
            if left <= 0 or len(self._verdicts) > before:
                break  # there is a slot more: whoever asked may have another task to try
        return events

    def end(self) -> None:
        """Give up what is still under way; its states are here."""
        with contextlib.suppress(Exception):
            self._read_mailbox()
        for reference in self._flying:
            with contextlib.suppress(Exception):
                self._ray.cancel(reference, force=True)

    def _send(self, attempt: _Attempt) -> None:
        parcel = pack(attempt.task)
        other = self._other_node(attempt.deaths) if attempt.deaths else None
        function = self._function.options(**self._options | (preferring(other) if other else {}))
        with one_line():
            reference = function.remote(parcel, self._mailbox, self._every, attempt.sent, self._versions)
        self._flying[reference] = attempt

    def _receive(self, reference: Any, attempt: _Attempt) -> list[Finished | Report]:
        task = attempt.task
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:  # a task's own errors are part of its answer
            said = " ".join(str(error).strip().splitlines()[-1].split())
            # an answer that cannot be unpacked here comes without an address
            where = self._name(attempt.where) or getattr(error, "ip", "") or "(unknown)"
            raise RunError(
                f"machine {where} of the cluster cannot carry out tasks ({said[:300]}); "
                "install there what is installed here"
            ) from error
        except self._ray.exceptions.RayError as error:
            return self._see_to(attempt, error)
        assert isinstance(answer, Answer)
        finished = unpacked(answer.finished)
        failure = finished.error
        if isinstance(failure, NotHereError) and str(failure) not in attempt.sent:
            attempt.sent[str(failure)] = self._provide(str(failure), task)
            self._send(attempt)
            return []
        self._verdicts.works(task)
        put_in_place(answer.contents, writes=task.writes, is_whole=failure is None)
        return [finished]

    def _see_to(self, attempt: _Attempt, error: Exception) -> list[Finished | Report]:
        """Try a task again whose process or machine died, elsewhere if it can be; in the end it is lost."""
        self._read_mailbox()
        how = attempt.words or in_words(error)
        if isinstance(error, self._ray.exceptions.NodeDiedError) or not self._is_alive(attempt.where):
            attempt.machines += 1
        else:
            attempt.deaths.append(attempt.where)
        attempt.where = ""
        if attempt.machines >= LOST_MACHINES:
            why = f"{attempt.machines} machines were lost while they worked on it: {how}"
            return [Finished(attempt.task.number, error=LostTaskError(why))]
        if len(attempt.deaths) < TRIES:
            self._send(attempt)
        else:
            names = dict.fromkeys(self._name(node) or "a machine" for node in attempt.deaths)
            story = f"its process died {TRIES} times, on {' and '.join(names)}"
            self._verdicts.lose(Lost(attempt.task, story, how))
        return []

    def _read_mailbox(self) -> list[Finished | Report]:
        self._heard = time.monotonic()
        attempts = {attempt.task.number: attempt for attempt in self._flying.values()}
        try:
            messages = self._ray.get(self._mailbox.take.remote(), timeout=30)
        except self._ray.exceptions.RayError:  # it is being started again elsewhere; messages may be lost
            return []
        events: list[Finished | Report] = []
        for kind, number, content in messages:
            attempt = attempts.get(number)
            if attempt is None:
                continue  # of a task that is finished by now
            if kind == "began":
                attempt.where, attempt.words = content, ""
            elif kind == "words":
                attempt.words = content
            elif kind == "files":
                put_in_place(content, writes=attempt.task.writes, is_whole=False)
            else:
                events.append(Report(number, *content))
        return events

    def _provide(self, what: str, task: Task) -> list[Any]:
        """References to the parts of a dataset, or to a file of weights, put into the cluster once."""
        resources = task.job.resources
        path = Path(resources.weights) if what == "weights" else resources.dataset_root
        if path is None or not path.exists():
            raise RunError(
                f"a machine of the cluster lacks the {what} and the driver has nothing to send; say where "
                "it lies on that machine (docs/engines.md), or set dataset.root here"
            )
        key = (what, str(path))
        if key not in self._put:
            parts = dataset_parts(path) if what == "dataset" else iter([{path.name: path.read_bytes()}])
            self._put[key] = [self._ray.put(part) for part in parts]
        return self._put[key]

    def _is_alive(self, node: str) -> bool:
        return not node or any(each["NodeID"] == node for each in self._alive())

    def _other_node(self, known: list[str]) -> str | None:
        """A node that can take a task and is none of these, if there is one."""
        nodes = [node for node in self._alive() if self._asked.places(node["Resources"])]
        others = [str(node["NodeID"]) for node in nodes if node["NodeID"] not in known]
        return random.choice(others) if others else None

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _name(self, node: str) -> str:
        """What messages call a node; nothing if it is not known."""
        names = (each["NodeManagerHostname"] for each in self._ray.nodes() if each["NodeID"] == node)
        return "".join(machine_name(name, node) for name in names)

    def _count_places(self, *, first: bool = False) -> None:
        """How many tasks the machines that are there now take at once."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        nodes = [node["Resources"] for node in self._alive()]
        self._places = sum(self._asked.places(node) for node in nodes)
        if first and self._places == 0:
            most = {name: max(node.get(name, 0.0) for node in nodes) for name in self._asked.all()}
            lacking = [name for name, amount in self._asked.all().items() if most[name] < amount] or list(
                most
            )
            name = lacking[0]
            option = {"CPU": "engine.cpus", "GPU": "engine.gpus"}.get(name, "engine.resources")
            raise UsageError(
                f"{option}: a run asks for {self._asked.all()[name]:g} {name}, but no machine of the cluster "
                f"has more than {most[name]:g}; lower it"
            )
