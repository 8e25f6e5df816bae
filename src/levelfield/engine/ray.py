"""Engine for a Ray cluster: any number of machines that share no files.

The driver owns the records. A task is sent with the files and plug-ins that it needs, and with the code of
this package (``_remote_task.py``). Its files come back as bytes, and the driver writes them. A long run sends
its state back from time to time, so that a lost machine costs minutes; the driver then sends the task, with
that state, to another machine.
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Annotated, Any

from pydantic import Field

from levelfield.core.errors import RunError, UsageError
from levelfield.engine._engine import (
    Engine,
    LostTaskError,
    PortableJob,
    ProgressReport,
    Task,
    TaskResult,
    register,
)
from levelfield.engine._execute import unpickle_result
from levelfield.engine._mailbox import Mailbox
from levelfield.engine._ray_cluster import (
    connected,
    connection_errors,
    first_sentence,
    import_ray,
    prefer_driver_node,
    prefer_node,
)
from levelfield.engine._ray_task import execute_in_cluster, machine_name, package_versions
from levelfield.engine._remote_task import (
    FileContents,
    MissingAttachmentError,
    RemoteResult,
    attachment_parts,
    pack_task,
    write_returned_files,
)
from levelfield.engine._worker_deaths import MAX_ATTEMPTS, LostTask, LostTasks

MAX_LOST_MACHINES = 10  # of one task
SLOTS_PER_PLACE = 1.25  # tasks held for each place, so that no place waits for the driver
NODES_SECONDS = 60.0  # for the first machine of a cluster that has none
PAUSE = 0.5  # between two looks for it
POLL_SECONDS = 2.0  # between two looks at mailbox and machines

Amount = Annotated[float, Field(ge=0, le=1024)]


@register("ray")
@contextmanager
def ray_cluster(
    *,
    threads: int = 1,
    device: str = "cpu",
    address: str = "auto",
    cpus: Amount | None = None,
    gpus: Amount | None = None,
    resources: dict[str, float] | None = None,
    checkpoint_seconds: Annotated[float, Field(gt=0)] = 60.0,
) -> Iterator[Engine]:
    """Execute runs on a Ray cluster; ``cpus`` and ``gpus`` of a run may be fractions.

    ``address`` is "auto" (the cluster of this machine), "local" (a cluster that is started here and ends with
    the experiment) or "ray://HOST:10001".
    """
    ray = import_ray()
    on_gpu = (device == "auto" and bool(gpus)) or device.startswith("cuda")
    request = _ResourceRequest(
        cpus=threads if cpus is None else cpus,
        gpus=(1.0 if on_gpu else 0.0) if gpus is None else gpus,
        others=dict(resources or {}),
    )
    with connected(ray, address):
        engine = RayEngine(ray, request, checkpoint_seconds=checkpoint_seconds)
        try:
            yield engine
        finally:
            engine.stop()


@dataclass(frozen=True)
class _ResourceRequest:
    """Resources of a machine that one task needs."""

    cpus: float
    gpus: float
    others: dict[str, float]

    def amounts(self) -> dict[str, float]:
        """Return the amounts above 0, by Ray's name of the resource."""
        amounts = {"CPU": self.cpus, "GPU": self.gpus, **self.others}
        return {name: amount for name, amount in amounts.items() if amount > 0}

    def places(self, offered: dict[str, float]) -> int:
        """Return the number of tasks that a machine with these resources executes at once."""
        return min(
            (int(offered.get(name, 0.0) / amount + 1e-9) for name, amount in self.amounts().items()),
            default=1,
        )


@dataclass
class _TaskAttempts:
    """Task with the state of its attempts.

    Attributes:
        task: The task.
        deaths: Nodes where its process died; "" if the node is not known.
        lost_machines: Number of machines that were lost while they executed it.
        node: The node that executes it now.
        fatal_error: The error that its process ended with.
        attachments: References to the attachments that were sent for it, by name.
    """

    task: Task
    deaths: list[str] = field(default_factory=list)
    lost_machines: int = 0
    node: str = ""
    fatal_error: str = ""
    attachments: dict[str, list[Any]] = field(default_factory=dict)


class RayEngine:
    """Engine on a connected Ray cluster; see the module."""

    def __init__(self, ray: ModuleType, request: _ResourceRequest, *, checkpoint_seconds: float) -> None:
        self._ray, self._request, self._checkpoint_seconds = ray, request, checkpoint_seconds
        self._running: dict[Any, _TaskAttempts] = {}  # by Ray's reference to the result
        self._stored: dict[tuple[str, str], list[Any]] = {}  # attachments in the cluster
        self._nodes_read = self._mailbox_read = -math.inf
        self._places = 1
        self._count_places(first=True)
        options = prefer_driver_node(ray)
        self._mailbox = ray.remote(Mailbox).options(num_cpus=0, max_restarts=-1, **options).remote()
        self._function = ray.remote(execute_in_cluster)
        self._options: dict[str, Any] = {
            "num_cpus": request.cpus,
            "num_gpus": request.gpus,
            "resources": request.others,
            "max_retries": 0,  # the driver retries itself, from the newest state
            "scheduling_strategy": "SPREAD",
        }
        self._versions = package_versions()
        self._lost_tasks = LostTasks()

    @property
    def slots(self) -> int:
        """Number of tasks that the cluster executes at once now, and a quarter more."""
        self._count_places()
        return max(1, math.ceil(self._places * SLOTS_PER_PLACE)) + len(self._lost_tasks)

    def submit(self, task: Task) -> None:
        """See :class:`levelfield.engine.Engine`."""
        self._send(_TaskAttempts(task))

    def wait(self, timeout: float | None = None) -> list[TaskResult | ProgressReport]:
        """See :class:`levelfield.engine.Engine`."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        events: list[TaskResult | ProgressReport] = []
        while not events:
            events += self._lost_tasks.resolve_lost_tasks(idle=not self._running)
            if events or not self._running:
                break
            left = deadline - time.monotonic()
            with connection_errors():
                ready, _ = self._ray.wait(
                    list(self._running), num_returns=1, timeout=max(0.0, min(POLL_SECONDS, left))
                )
                if ready:  # and all others that are finished by now
                    ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
            if time.monotonic() - self._mailbox_read > POLL_SECONDS:  # reading costs as much as a task
                events += self._read_mailbox()
            before = len(self._lost_tasks)
            for reference in ready:
                events += self._receive(reference, self._running[reference])
                del self._running[reference]  # only now: its last message may still be in the mailbox
            if left <= 0 or len(self._lost_tasks) > before:
                break  # there is one more slot; the caller may have another task to try
        return events

    def stop(self) -> None:
        """Save the newest states of the running tasks and cancel the tasks."""
        with contextlib.suppress(Exception):
            self._read_mailbox()
        for reference in self._running:
            with contextlib.suppress(Exception):
                self._ray.cancel(reference, force=True)

    def _send(self, attempts: _TaskAttempts) -> None:
        remote = pack_task(attempts.task)
        node = self._other_node(attempts.deaths) if attempts.deaths else None
        function = self._function.options(**self._options | (prefer_node(node) if node else {}))
        with connection_errors():
            reference = function.remote(
                remote, self._mailbox, self._checkpoint_seconds, attempts.attachments, self._versions
            )
        self._running[reference] = attempts

    def _receive(self, reference: Any, attempts: _TaskAttempts) -> list[TaskResult | ProgressReport]:
        task = attempts.task
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:  # errors of the task itself are in its result
            text = " ".join(str(error).strip().splitlines()[-1].split())
            # a result that cannot be unpickled here comes without an address
            machine = self._name(attempts.node) or getattr(error, "ip", "") or "(unknown)"
            raise RunError(
                f"machine {machine} of the cluster cannot execute tasks ({text[:300]}); "
                "install the same packages there as here"
            ) from error
        except self._ray.exceptions.RayError as error:
            return self._handle_worker_death(attempts, error)
        assert isinstance(answer, RemoteResult)
        result = unpickle_result(answer.result)
        failure = result.error
        if isinstance(failure, MissingAttachmentError) and str(failure) not in attempts.attachments:
            attempts.attachments[str(failure)] = self._store_attachment(str(failure), task)
            self._send(attempts)
            return []
        self._lost_tasks.add_completed(task)
        _write_files(task, answer.contents, is_complete=failure is None)
        return [result]

    def _handle_worker_death(
        self, attempts: _TaskAttempts, error: Exception
    ) -> list[TaskResult | ProgressReport]:
        """Retry a task whose process or machine died, on another machine if possible, or note it as lost."""
        self._read_mailbox()
        death = attempts.fatal_error or first_sentence(error)
        if isinstance(error, self._ray.exceptions.NodeDiedError) or not self._is_alive(attempts.node):
            attempts.lost_machines += 1
        else:
            attempts.deaths.append(attempts.node)
        attempts.node = ""
        if attempts.lost_machines >= MAX_LOST_MACHINES:
            reason = f"{attempts.lost_machines} machines were lost while they executed it: {death}"
            return [TaskResult(attempts.task.number, error=LostTaskError(reason))]
        if len(attempts.deaths) < MAX_ATTEMPTS:
            self._send(attempts)
        else:
            names = dict.fromkeys(self._name(node) or "a machine" for node in attempts.deaths)
            summary = f"its process died {MAX_ATTEMPTS} times, on {' and '.join(names)}"
            self._lost_tasks.add(LostTask(attempts.task, summary, death))
        return []

    def _read_mailbox(self) -> list[TaskResult | ProgressReport]:
        self._mailbox_read = time.monotonic()
        by_number = {attempts.task.number: attempts for attempts in self._running.values()}
        try:
            messages = self._ray.get(self._mailbox.take.remote(), timeout=30)
        except self._ray.exceptions.RayError:  # the actor restarts elsewhere; messages may be lost
            return []
        events: list[TaskResult | ProgressReport] = []
        for kind, number, content in messages:
            attempts = by_number.get(number)
            if attempts is None:
                continue  # the task is finished by now
            match kind:
                case "started":
                    attempts.node, attempts.fatal_error = content, ""
                case "fatal error":
                    attempts.fatal_error = content
                case "files":
                    _write_files(attempts.task, content, is_complete=False)
                case _:
                    events.append(ProgressReport(number, *content))
        return events

    def _store_attachment(self, name: str, task: Task) -> list[Any]:
        """Return references to the parts of an attachment; it is put into the cluster once."""
        path = task.job.attachments().get(name) if isinstance(task.job, PortableJob) else None
        if path is None or not path.exists():
            raise RunError(
                f"a machine of the cluster lacks the {name} and the driver has no copy to send; set its path "
                "on that machine (docs/engines.md), or set dataset.root here"
            )
        key = (name, str(path))
        if key not in self._stored:
            self._stored[key] = [self._ray.put(part) for part in attachment_parts(path)]
        return self._stored[key]

    def _is_alive(self, node: str) -> bool:
        return not node or any(each["NodeID"] == node for each in self._alive_nodes())

    def _other_node(self, known: list[str]) -> str | None:
        """Return a random node that can execute a task and is not in ``known``; None if there is none."""
        nodes = [node for node in self._alive_nodes() if self._request.places(node["Resources"])]
        others = [str(node["NodeID"]) for node in nodes if node["NodeID"] not in known]
        return random.choice(others) if others else None

    def _alive_nodes(self) -> list[dict[str, Any]]:
        return [node for node in self._ray.nodes() if node["Alive"]]

    def _name(self, node: str) -> str:
        """Return the name of a node in messages; "" if the node is not known."""
        names = (each["NodeManagerHostname"] for each in self._ray.nodes() if each["NodeID"] == node)
        return "".join(machine_name(name, node) for name in names)

    def _count_places(self, *, first: bool = False) -> None:
        """Count the tasks that the machines of the cluster execute at once; at most every few seconds."""
        if time.monotonic() - self._nodes_read < POLL_SECONDS:
            return
        until = time.monotonic() + NODES_SECONDS
        while True:
            nodes = [node["Resources"] for node in self._alive_nodes()]
            self._places = sum(self._request.places(node) for node in nodes)
            if not first or self._places or any(node.get("CPU") for node in nodes):
                break
            if time.monotonic() > until:  # it was not starting, and no machine was replaced
                raise RunError(
                    f"no machine of the cluster has been there for {NODES_SECONDS:g} s; start machines, and "
                    "give the same command again"
                )
            time.sleep(PAUSE)
        self._nodes_read = time.monotonic()
        if first and self._places == 0:
            amounts = self._request.amounts()
            most = {name: max(node.get(name, 0.0) for node in nodes) for name in amounts}
            lacking = [name for name, amount in amounts.items() if most[name] < amount] or list(most)
            name = lacking[0]
            option = {"CPU": "engine.cpus", "GPU": "engine.gpus"}.get(name, "engine.resources")
            raise UsageError(
                f"{option}: a run asks for {amounts[name]:g} {name}, but no machine of the cluster "
                f"has more than {most[name]:g}; lower it"
            )


def _write_files(task: Task, contents: FileContents, *, is_complete: bool) -> None:
    """Write the files of a task on the driver."""
    result_file = task.job.result_file if isinstance(task.job, PortableJob) else ""
    write_returned_files(contents, writes=task.writes, result_file=result_file, is_complete=is_complete)
