"""Tasks on a cluster, by Ray: any number of machines that share no files.

The driver owns the records. A task travels as a parcel (``_parcel.py``): with the files and plug-ins that it
needs, and the package's own code. Its files come back as bytes, and the driver writes them. A long run sends
its state back now and then, so that a lost machine costs minutes; the driver gives the task, with that state,
to another one.
"""

from __future__ import annotations

import contextlib
import math
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from pydantic import Field

import levelfield
from levelfield.engine._call import REPORT_EVERY, packed, unpacked
from levelfield.engine._mailbox import Mailbox
from levelfield.engine._parcel import (
    Answer,
    Contents,
    NotHereError,
    Parcel,
    dataset_parts,
    open_parcel,
    pack,
    put_in_place,
)
from levelfield.engine._runner import Finished, LostTaskError, Report, Runner, Task, register
from levelfield.errors import RunError, UsageError
from levelfield.train import available_cores

TRIES = 3  # of a task whose process dies
LOST_MACHINES = 10  # that a task may have been on
SPARE = 1.25  # tasks held for each place, so that no place waits for the driver
LOOK_SECONDS = 2.0  # between two looks at mailbox and machines
SAME_EVERYWHERE = ("torch", "torchvision", "timm", "numpy", "optuna", "pillow")

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
    ray = _import_ray()
    on_gpu = (device == "auto" and bool(gpus)) or device.startswith("cuda")
    asked = _Asked(
        cpus=threads if cpus is None else cpus,
        gpus=(1.0 if on_gpu else 0.0) if gpus is None else gpus,
        others=dict(resources or {}),
    )
    with _connected(ray, address):
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
    task: Task
    deaths: list[str] = field(default_factory=list)
    machines: int = 0  # that were lost with it
    where: str = ""
    sent: dict[str, list[Any]] = field(default_factory=dict)  # references to "dataset" and "weights"


class RayEngine:
    """See the module."""

    def __init__(self, ray: ModuleType, asked: _Asked, *, checkpoint_seconds: float) -> None:
        self._ray, self._asked, self._every = ray, asked, checkpoint_seconds
        self._flying: dict[Any, _Attempt] = {}
        self._put: dict[tuple[str, str], list[Any]] = {}
        self._looked = -math.inf
        self._places = 1
        self._count_places(first=True)
        self._mailbox = ray.remote(Mailbox).options(num_cpus=0, max_restarts=-1, **_near_driver(ray)).remote()
        self._function = ray.remote(carry_out_parcel).options(
            num_cpus=asked.cpus,
            num_gpus=asked.gpus,
            resources=asked.others,
            max_retries=0,  # the driver tries again itself, from the newest state
            scheduling_strategy="SPREAD",
        )
        self._versions = _versions()

    @property
    def slots(self) -> int:
        """As many as the cluster takes at once, as it is now, and a few more."""
        self._count_places()
        return max(1, math.ceil(self._places * SPARE))

    def submit(self, task: Task) -> None:
        """See :class:`levelfield.engine.Runner`."""
        self._send(_Attempt(task))

    def wait(self, timeout: float | None = None) -> list[Finished | Report]:
        """See :class:`levelfield.engine.Runner`."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        events: list[Finished | Report] = []
        while not events:
            left = deadline - time.monotonic()
            with _one_line():
                ready, _ = self._ray.wait(
                    list(self._flying), num_returns=1, timeout=max(0.0, min(LOOK_SECONDS, left))
                )
                if ready:  # and whatever else is finished by now
                    ready, _ = self._ray.wait(list(self._flying), num_returns=len(self._flying), timeout=0)
            events += self._read_mailbox()
            for reference in ready:
                events += self._receive(reference, self._flying.pop(reference))
            if left <= 0:
                break
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
        with _one_line():
            reference = self._function.remote(
                parcel, self._mailbox, self._every, attempt.sent, self._versions
            )
        self._flying[reference] = attempt

    def _receive(self, reference: Any, attempt: _Attempt) -> list[Finished | Report]:
        task = attempt.task
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            return self._see_to(attempt, error)
        assert isinstance(answer, Answer)
        finished = unpacked(answer.finished)
        failure = finished.error
        if isinstance(failure, NotHereError) and str(failure) not in attempt.sent:
            attempt.sent[str(failure)] = self._provide(str(failure), task)
            self._send(attempt)
            return []
        put_in_place(answer.contents, writes=task.writes, is_whole=failure is None)
        return [finished]

    def _see_to(self, attempt: _Attempt, error: Exception) -> list[Finished | Report]:
        """Try a task again whose process or machine died; in the end it is lost."""
        self._read_mailbox()
        how = _in_words(error)
        if isinstance(error, self._ray.exceptions.NodeDiedError) or not self._is_alive(attempt.where):
            attempt.machines += 1
        else:
            attempt.deaths.append(f"on {attempt.where or 'a machine'}: {how}")
        attempt.where = ""
        if len(attempt.deaths) < TRIES and attempt.machines < LOST_MACHINES:
            self._send(attempt)
            return []
        if attempt.machines >= LOST_MACHINES:
            why = f"{attempt.machines} machines were lost while they worked on it: {how}"
        else:
            why = f"its process died {TRIES} times, the last time {attempt.deaths[-1]}"
        return [Finished(attempt.task.number, error=LostTaskError(why))]

    def _read_mailbox(self) -> list[Finished | Report]:
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
                attempt.where = content
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

    def _is_alive(self, machine: str) -> bool:
        nodes = self._ray.nodes()
        return any(node["Alive"] and _name_of(node) == machine for node in nodes) or not machine

    def _count_places(self, *, first: bool = False) -> None:
        """How many tasks the machines that are there now take at once."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
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


def carry_out_parcel(
    parcel: Parcel, mailbox: Any, every: float, sent: dict[str, list[Any]], versions: dict[str, str]
) -> Answer:
    """In a process of the cluster: carry out a task; see :func:`levelfield.engine._parcel.open_parcel`."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    here = f"{platform.node()} ({node[:8]})"
    mailbox.put.remote("began", parcel.number, here)
    different = [f"{name} {_versions()[name]}" for name in versions if _versions()[name] != versions[name]]
    if different:
        wanted = ", ".join(f"{name} {versions[name]}" for name in versions)
        problem = f"machine {here} has {', '.join(different)}, the driver {wanted}; install the same versions"
        return Answer(packed(Finished(parcel.number, error=RunError(problem))), {})
    last = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > REPORT_EVERY:
            last = time.monotonic()
            mailbox.put.remote("report", parcel.number, (done, total))

    def keep(contents: Contents) -> None:
        mailbox.put.remote("files", parcel.number, contents)

    def fetch(what: str) -> Iterator[Contents]:
        if what not in sent:
            raise NotHereError(what)
        for reference in sent[what]:
            yield ray.get(reference)

    return open_parcel(parcel, tell=tell, keep=keep, every=every, fetch=fetch)


def _versions() -> dict[str, str]:
    """What decides the bits of a run and can be installed: it must be the same on all machines."""
    found = {name: _version(name) for name in SAME_EVERYWHERE}
    return {"python": platform.python_version(), **found}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(none)"


def _import_ray() -> ModuleType:
    # For a cluster that is started here: Ray's workers would else give way to every other process.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            "engine ray needs the package ray; install it with pip install 'levelfield[ray]', here and on "
            "the machines of the cluster"
        ) from error
    module: ModuleType = ray
    return module


@contextmanager
def _connected(ray: ModuleType, address: str) -> Iterator[None]:
    """Join a cluster, or start one; the package's code goes along."""
    code = {"py_modules": [str(Path(levelfield.__file__).parent)]}
    options: dict[str, Any] = (
        {"num_cpus": available_cores(), "include_dashboard": False} if address == "local" else {}
    )
    try:
        ray.init(address=address, runtime_env=code, log_to_driver=False, logging_level="ERROR", **options)
    except (ConnectionError, RuntimeError, OSError, ValueError, TimeoutError) as error:
        reason = " ".join(str(error).split())[:300]
        raise RunError(
            f"cannot join the Ray cluster at {address} ({reason}); start one with `ray start --head`, or set "
            "engine.address"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _one_line() -> Iterator[None]:
    """A cluster that is gone, in one line."""
    import ray

    try:
        yield
    except (ray.exceptions.RaySystemError, ConnectionError) as error:
        raise RunError(
            f"the Ray cluster cannot be reached any more ({_in_words(error)}); give the same command again: "
            "finished runs and saved states are kept"
        ) from error


def _near_driver(ray: ModuleType) -> dict[str, Any]:
    """Where the mailbox is put: on the driver's own machine, if that belongs to the cluster."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    try:
        node = ray.get_runtime_context().get_node_id()
    except Exception:  # a driver outside of the cluster has no node
        return {}
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=True)}


def _name_of(node: dict[str, Any]) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeID'][:8]})"


def _in_words(error: Exception) -> str:
    """The first sentence of what Ray says."""
    return " ".join(str(error).split()).partition(". ")[0][:300]
