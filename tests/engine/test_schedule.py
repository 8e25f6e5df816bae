"""All methods run at once, and every record is the same, byte by byte, in any order."""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.helpers.records_snapshot import differences, records_of
from tests.helpers.warm import run_levelfield, start_levelfield

import levelfield as lf
from levelfield import engine
from levelfield.analysis import read_comparison
from levelfield.engine import Engine, InlineEngine, LostTaskError, ProgressReport, Task, TaskResult
from levelfield.protocol import ProgressEvent, ProgressState
from levelfield.protocol.schedule._flow import Flow, Job, Sleep, WaitForFlows, WaitForJobs, WaitUntil
from levelfield.protocol.schedule._scheduler import Scheduler
from levelfield.records import Store

DELAYED = Path(__file__).parent.parent / "helpers" / "delayed_plugin.py"


class Shuffled:
    """Holds several tasks and executes a random one next."""

    def __init__(self, slots: int, seed: int) -> None:
        self.slots = slots
        self.most = 0
        self._tasks: list[Task] = []
        self._chance = random.Random(seed)

    def submit(self, task: Task) -> None:
        self._tasks.append(task)
        self.most = max(self.most, len(self._tasks))

    def wait(self, timeout: float | None = None) -> list[TaskResult | ProgressReport]:
        task = self._tasks.pop(self._chance.randrange(len(self._tasks)))
        return [engine.execute_task(task.number, task.function, task.job)]


OPENED: list[Shuffled] = []


@engine.register("shuffled")
@contextmanager
def shuffled(*, slots: int = 7, seed: int = 0) -> Iterator[Engine]:
    """Execute tasks in random order."""
    OPENED.append(Shuffled(slots, seed))
    yield OPENED[-1]


@pytest.fixture
def experiment(tiny: dict[str, Any]) -> dict[str, Any]:
    """Experiment with proposals of the Gaussian process, pruned trials and parallel trials."""
    tiny["plugins"] = [*tiny["plugins"], str(DELAYED)]
    tiny["training"] = {"iterations_per_epoch": 2, "max_epochs": 2, "evaluate_every": 1, "patience": None}
    tiny |= {
        "methods": ["delayed", "triplet", {"name": "twin", "loss": "triplet"}],
        "search": {"trials": 5, "sampler": "gp", "parallel": 2, "prune": True},
    }
    return tiny


def run_records(experiment: dict[str, Any], out: Path, **engine_values: Any) -> dict[str, bytes]:
    return records_of(lf.run(lf.Experiment.build(**experiment | {"engine": engine_values}), out).path)


@pytest.mark.slow
def test_the_records_do_not_depend_on_workers_or_order(experiment: dict[str, Any], tmp_path: Path) -> None:
    expected = run_records(experiment, tmp_path / "0", workers=0)
    assert sum("searches/" in name and "trial-" in name for name in expected) == 2 * 5, "twins share a search"
    found = run_records(experiment, tmp_path / "shuffled", name="shuffled", seed=random.randrange(1000))
    assert not differences(expected, found)
    # Two searches of two trials each start at once; whether all 7 slots fill up depends on the order.
    assert OPENED[-1].most >= 4, "tasks waited beside each other"
    assert not differences(expected, run_records(experiment, tmp_path / "3", workers=3))


@pytest.mark.slow
def test_a_search_does_not_wait_for_another_but_the_test_set_does(
    experiment: dict[str, Any], tmp_path: Path
) -> None:
    """One method is trained for its confirmation during the search of another, but not scored."""
    experiment["search"] = {"trials": 6, "sampler": "random"}
    experiment["methods"] = [{"name": "triplet", "set": {"margin": 0.1}}, "contrastive"]
    seen: list[ProgressEvent] = []

    class Watch:
        def update(self, progress_state: ProgressState, event: ProgressEvent) -> None:
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


def progress_state() -> ProgressState:
    made = ProgressState()
    made.add_row("row", 10)
    return made


def test_jobs_of_one_key_are_done_once_and_known_ones_never() -> None:
    runner = Shuffled(3, 0)

    def flow(key: str) -> Flow[list[int]]:
        return (
            yield WaitForJobs([job(key, -4), job("shared", -5), job("known", -6, load_result=lambda: 60)])
        )

    def both() -> Flow[list[list[int]]]:
        return (yield WaitForFlows([flow("a"), flow("b"), empty()]))

    def empty() -> Flow[list[int]]:
        yield Sleep(0.001)
        return (yield WaitForJobs([]))

    shown = progress_state()
    assert Scheduler(runner, shown).run([both()]) == [[[4, 5, 60], [4, 5, 60], []]]
    assert shown.rows["row"].done == 4


def test_the_job_with_the_highest_priority_runs_first() -> None:
    order: list[str] = []

    class Noting(InlineEngine):
        def submit(self, task: Task) -> None:
            order.append(str(task.job))
            super().submit(task)

    def flow() -> Flow[None]:
        yield WaitForJobs(
            [job("a", 1), job("b", 2, priority=2.0), job("c", 3, priority=1.0), job("d", 4, priority=2.0)]
        )

    Scheduler(Noting(), progress_state()).run([flow()])
    assert order == ["2", "4", "3", "1"]


def test_flows_wait_for_each_other() -> None:
    done: list[str] = []

    def first() -> Flow[None]:
        yield WaitUntil(lambda: "second" in done)
        done.append("first")

    def second() -> Flow[None]:
        yield WaitForJobs([job("x")])
        done.append("second")

    Scheduler(InlineEngine(), progress_state()).run([first(), second()])
    assert done == ["second", "first"]


class Losing:
    """Loses every task whose job is negative."""

    slots = 1

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def submit(self, task: Task) -> None:
        self.tasks.append(task)

    def wait(self, timeout: float | None = None) -> list[TaskResult | ProgressReport]:
        task = self.tasks.pop()
        if task.job < 0:
            return [TaskResult(task.number, error=LostTaskError("it died"))]
        return [engine.execute_task(task.number, task.function, task.job)]


def test_a_lost_job_is_recorded_if_possible() -> None:
    def flow(**fields: Any) -> Flow[list[Any]]:
        return (yield WaitForJobs([job("x", -1, **fields), job("y", 2)]))

    assert Scheduler(Losing(), progress_state()).run([flow(on_lost=lambda why: f"failed: {why}")]) == [
        ["failed: it died", 2]
    ]
    with pytest.raises(LostTaskError):
        Scheduler(Losing(), progress_state()).run([flow()])


KILLER = """
import os, signal
import levelfield as lf
from levelfield.losses.contrastive import Contrastive

@lf.losses.register("killer", space={"neg_margin": lf.Float(0.0, 1.0)})
class Killer(Contrastive):
    "Kills its process."
    def forward(self, embeddings, labels, *rest):
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_run_whose_worker_dies_is_recorded_as_failed_and_the_others_go_on(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one attempt, because each costs the start of a process; ``test_local.py`` counts to three."""
    monkeypatch.setattr("levelfield.engine._local.MAX_ATTEMPTS", 1)
    (tmp_path / "killer.py").write_text(KILLER)
    tiny["plugins"] = [*tiny["plugins"], str(tmp_path / "killer.py")]
    tiny |= {"methods": ["killer", "triplet"], "search": {"trials": 1}, "engine": {"workers": 1}}
    tiny["confirm"] = {"reruns": 1}
    root = lf.run(lf.Experiment.build(**tiny), tmp_path / "out").path
    failed, trained = read_comparison(root).trained
    assert failed.selection.failed is not None
    assert "died 1 times" in failed.selection.failed and "SIGKILL" in failed.selection.failed
    assert trained.scores["concatenated"]["map_at_r"]
    statuses = {result.status for run in Store(root).runs() if (result := run.result()) is not None}
    assert statuses == {"failed", "complete"}
    assert not list(root.rglob("state.pt"))


def run_arguments(tiny: dict[str, Any], tmp_path: Path, *more: str) -> list[str]:
    file = tmp_path / "tiny.yaml"
    file.write_text(yaml.safe_dump(tiny))
    return ["run", str(file), "--out", str(tmp_path / "out"), *more]


@pytest.mark.slow
@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_once_finishes_what_runs_and_twice_stops_now(
    experiment: dict[str, Any], tmp_path: Path, presses: int
) -> None:
    experiment |= {"methods": ["delayed", "triplet"], "engine": {"workers": 2}}
    reader, writer = os.pipe()
    process = start_levelfield(run_arguments(experiment, tmp_path, "--json"), stderr=writer, new_session=True)
    os.close(writer)
    with os.fdopen(reader) as stderr:
        for line in stderr:
            if json.loads(line)["event"] == "finished":
                break
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: to all processes
        lines = []
        for line in stderr:
            lines.append(line)
            if '"stopping"' in line:
                break
        if presses == 2:
            os.killpg(process.pid, signal.SIGINT)
        lines += stderr.read().splitlines()
    assert process.wait() == 130
    assert "run the same command again to continue" in lines[-1]
    unfinished = [run for run in Store(tmp_path / "out").runs() if run.result() is None]
    if presses == 1:
        assert not unfinished and sum('"event": "finished"' in line for line in lines) <= 2


@pytest.mark.slow
def test_a_long_run_reports_its_epoch(experiment: dict[str, Any], tmp_path: Path) -> None:
    seen: list[ProgressEvent] = []

    class Watch:
        def update(self, progress_state: ProgressState, event: ProgressEvent) -> None:
            seen.append(event)

    experiment |= {"methods": ["triplet"], "search": {"trials": 1}, "engine": {"workers": 1}}
    lf.run(lf.Experiment.build(**experiment), tmp_path / "out", progress=Watch())
    reports = [event for event in seen if event.kind == "report"]
    assert reports and all(
        event.row == "triplet" and 1 <= event.done <= event.total == 2 for event in reports
    )


@pytest.mark.slow
def test_a_redirected_run_shows_lines_and_a_script_gets_events(tiny: dict[str, Any], tmp_path: Path) -> None:
    done = run_levelfield(run_arguments(tiny, tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert any("triplet: trial 2 of 2: 0." in line and "jobs done" in line for line in lines)
    assert any("contrastive: test set opened" in line for line in lines)
    tiny["search"]["trials"] = 3
    done = run_levelfield(run_arguments(tiny, tmp_path, "--json"))
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert events[-1]["all"]["done"] == events[-1]["all"]["total"]
    assert {"trial", "selected", "started", "finished", "ended"} <= {event["event"] for event in events}
    assert json.loads(done.stdout)
