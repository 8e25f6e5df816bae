"""All methods go on at once, and every record is the same, byte by byte, however they do."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import levelfield as lf
from levelfield import engine
from levelfield.engine import Finished, LostTaskError, Report, Runner, Task, ThisProcess
from levelfield.protocol import Board, Event
from levelfield.protocol._flow import Flow, Job, Jobs, Pause, Together, Until
from levelfield.protocol._schedule import Schedule
from levelfield.records import Store
from records_snapshot import differences, records_of

DELAYED = Path(__file__).parent.parent / "delayed_plugin.py"


class Shuffled:
    """Holds several tasks, and carries out any one of them next."""

    def __init__(self, slots: int, seed: int) -> None:
        self.slots = slots
        self.most = 0
        self._tasks: list[Task] = []
        self._chance = random.Random(seed)

    def submit(self, task: Task) -> None:
        self._tasks.append(task)
        self.most = max(self.most, len(self._tasks))

    def wait(self, timeout: float | None = None) -> list[Finished | Report]:
        task = self._tasks.pop(self._chance.randrange(len(self._tasks)))
        return [engine.carry_out(task.number, task.function, task.job)]


OPENED: list[Shuffled] = []


@engine.register("shuffled")
@contextmanager
def shuffled(*, slots: int = 7, seed: int = 0) -> Iterator[Runner]:
    """See the class."""
    OPENED.append(Shuffled(slots, seed))
    yield OPENED[-1]


@pytest.fixture
def experiment(tiny: dict[str, Any]) -> dict[str, Any]:
    """Long enough for proposals of the Gaussian process, for pruned trials, and for rounds."""
    tiny["plugins"] = [*tiny["plugins"], str(DELAYED)]
    tiny["training"] = {"iterations_per_epoch": 2, "max_epochs": 2, "evaluate_every": 1, "patience": None}
    tiny |= {
        "methods": ["delayed", "triplet", {"name": "twin", "loss": "triplet"}],
        "search": {"trials": 8, "sampler": "gp", "parallel": 2, "prune": True},
    }
    return tiny


def carried_out(experiment: dict[str, Any], out: Path, **engine_values: Any) -> dict[str, bytes]:
    return records_of(lf.run(lf.Experiment.build(**experiment | {"engine": engine_values}), out))


def test_the_records_do_not_depend_on_workers_or_order(experiment: dict[str, Any], tmp_path: Path) -> None:
    expected = carried_out(experiment, tmp_path / "0", workers=0)
    assert sum("searches/" in name and "trial-" in name for name in expected) == 2 * 8, "twins share a search"
    for seed in range(2):
        found = carried_out(experiment, tmp_path / f"shuffled {seed}", name="shuffled", seed=seed)
        assert not differences(expected, found)
    assert OPENED[-1].most == 7, "all slots were in use"
    for workers in (1, 2, 5):
        assert not differences(expected, carried_out(experiment, tmp_path / str(workers), workers=workers))


def test_a_search_does_not_wait_for_another_but_the_test_set_does(
    experiment: dict[str, Any], tmp_path: Path
) -> None:
    """One method is trained for its confirmation while another is still searched; none is scored then."""
    experiment["search"] = {"trials": 6, "sampler": "random"}
    experiment["methods"] = [{"name": "triplet", "set": {"margin": 0.1}}, "contrastive"]
    seen: list[Event] = []

    class Watch:
        def update(self, board: Board, event: Event) -> None:
            seen.append(event)

    values = experiment | {"engine": {"name": "shuffled", "slots": 3}}
    lf.run(lf.Experiment.build(**values), tmp_path / "out", progress=Watch())
    happened = [(event.kind, event.row, event.stage) for event in seen]
    last_selection = max(n for n, event in enumerate(seen) if event.kind == "selected")
    assert happened.index(("finished", "triplet", "confirm")) < last_selection
    assert min(n for n, event in enumerate(seen) if event.stage == "score") > last_selection
    opened = [event.row for event in seen if event.kind == "opened"]
    assert (
        opened
        == ["untrained", "triplet", "contrastive"]
        == [line.method for line in Store(tmp_path / "out").ledger() if line.reruns]
    )


def job(key: str, value: int = 1, **fields: Any) -> Job:
    return Job(key, abs, value, "row", "search", **fields)


def board() -> Board:
    made = Board()
    made.expect("row", 10)
    return made


def test_jobs_of_one_key_are_done_once_and_known_ones_never() -> None:
    runner = Shuffled(3, 0)

    def flow(key: str) -> Flow[list[int]]:
        return (yield Jobs([job(key, -4), job("shared", -5), job("known", -6, known=lambda: 60)]))

    def both() -> Flow[list[list[int]]]:
        return (yield Together([flow("a"), flow("b"), empty()]))

    def empty() -> Flow[list[int]]:
        yield Pause(0.001)
        return (yield Jobs([]))

    shown = board()
    assert Schedule(runner, shown).run([both()]) == [[[4, 5, 60], [4, 5, 60], []]]
    assert shown.rows["row"].done == 4


def test_the_most_urgent_job_goes_first() -> None:
    order: list[str] = []

    class Noting(ThisProcess):
        def submit(self, task: Task) -> None:
            order.append(str(task.job))
            super().submit(task)

    def flow() -> Flow[None]:
        yield Jobs(
            [job("a", 1), job("b", 2, urgency=2.0), job("c", 3, urgency=1.0), job("d", 4, urgency=2.0)]
        )

    Schedule(Noting(), board()).run([flow()])
    assert order == ["2", "4", "3", "1"]


def test_flows_wait_for_each_other() -> None:
    done: list[str] = []

    def first() -> Flow[None]:
        yield Until(lambda: "second" in done)
        done.append("first")

    def second() -> Flow[None]:
        yield Jobs([job("x")])
        done.append("second")

    Schedule(ThisProcess(), board()).run([first(), second()])
    assert done == ["second", "first"]


class Losing:
    """Loses every task whose job is negative."""

    slots = 1

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def submit(self, task: Task) -> None:
        self.tasks.append(task)

    def wait(self, timeout: float | None = None) -> list[Finished | Report]:
        task = self.tasks.pop()
        if task.job < 0:
            return [Finished(task.number, error=LostTaskError("it died"))]
        return [engine.carry_out(task.number, task.function, task.job)]


def test_a_lost_job_is_recorded_where_that_is_possible() -> None:
    def flow(**fields: Any) -> Flow[list[Any]]:
        return (yield Jobs([job("x", -1, **fields), job("y", 2)]))

    assert Schedule(Losing(), board()).run([flow(lost=lambda why: f"failed: {why}")]) == [
        ["failed: it died", 2]
    ]
    with pytest.raises(LostTaskError):
        Schedule(Losing(), board()).run([flow()])


KILLER = """
import os, signal
import levelfield as lf
from levelfield.losses.contrastive import Contrastive

@lf.losses.register("killer", space={"neg_margin": lf.Float(0.0, 1.0)})
class Killer(Contrastive):
    "Takes the process with it."
    def forward(self, embeddings, labels, *rest):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_run_whose_worker_dies_is_recorded_as_failed_and_the_others_go_on(
    tiny: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "killer.py").write_text(KILLER)
    tiny["plugins"] = [*tiny["plugins"], str(tmp_path / "killer.py")]
    tiny |= {"methods": ["killer", "triplet"], "search": {"trials": 1}, "engine": {"workers": 2}}
    tiny["confirm"] = {"reruns": 1}
    root = lf.run(lf.Experiment.build(**tiny), tmp_path / "out")
    failed, trained = lf.compare.collect(root).trained
    assert failed.selection.failed is not None
    assert "died 3 times" in failed.selection.failed and "SIGKILL" in failed.selection.failed
    assert trained.scores["concatenated"]["map_at_r"]
    statuses = {result.status for run in Store(root).runs() if (result := run.result()) is not None}
    assert statuses == {"failed", "complete"}
    assert not list(root.rglob("state.pt"))


def command(tiny: dict[str, Any], tmp_path: Path, *more: str) -> list[str]:
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny))
    return [sys.executable, "-m", "levelfield", "run", str(file), "--out", str(tmp_path / "out"), *more]


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_once_finishes_what_runs_and_twice_stops_now(
    experiment: dict[str, Any], tmp_path: Path, presses: int
) -> None:
    experiment |= {"methods": ["delayed", "triplet"], "engine": {"workers": 2}}
    process = subprocess.Popen(
        command(experiment, tmp_path, "--json"), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if json.loads(line)["event"] == "finished":
            break
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to all processes
    lines = []
    for line in process.stderr:
        lines.append(line)
        if '"stopping"' in line:
            break
    if presses == 2:
        os.killpg(process.pid, signal.SIGINT)
    lines += process.stderr.read().splitlines()
    assert process.wait() == 130
    assert "give the same command again to go on where it was" in lines[-1]
    unfinished = [run for run in Store(tmp_path / "out").runs() if run.result() is None]
    if presses == 1:
        assert not unfinished and sum('"event": "finished"' in line for line in lines) <= 2


def test_a_long_run_says_in_which_epoch_it_is(experiment: dict[str, Any], tmp_path: Path) -> None:
    seen: list[Event] = []

    class Watch:
        def update(self, board: Board, event: Event) -> None:
            seen.append(event)

    experiment |= {"methods": ["triplet"], "search": {"trials": 1}, "engine": {"workers": 1}}
    lf.run(lf.Experiment.build(**experiment), tmp_path / "out", progress=Watch())
    reports = [event for event in seen if event.kind == "report"]
    assert reports and all(
        event.row == "triplet" and 1 <= event.done <= event.total == 2 for event in reports
    )


def test_a_redirected_run_shows_lines_and_a_script_gets_events(tiny: dict[str, Any], tmp_path: Path) -> None:
    done = subprocess.run(command(tiny, tmp_path), capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert any("triplet: trial 2 of 2: 0." in line and "jobs done" in line for line in lines)
    assert any("contrastive: test set opened" in line for line in lines)
    tiny["search"]["trials"] = 3
    done = subprocess.run(command(tiny, tmp_path, "--json"), capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert events[-1]["all"]["done"] == events[-1]["all"]["total"]
    assert {"trial", "selected", "started", "finished", "ended"} <= {event["event"] for event in events}
    assert json.loads(done.stdout)
