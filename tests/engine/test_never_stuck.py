"""Nothing hangs: loader processes end on every way out, and a watchdog says what is awaited."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.helpers.odd_jobs import fail_with_loaders
from tests.helpers.one_run import job

from levelfield.cli._progress import event_text
from levelfield.core import files
from levelfield.core.errors import RunError
from levelfield.core.processes import Watchdog
from levelfield.data import MemoryImages, transforms
from levelfield.engine import LocalEngine, Task, TaskResult, run_tasks
from levelfield.protocol.schedule._flow import Flow, Job, WaitForJobs
from levelfield.protocol.schedule._progress import ProgressEvent, ProgressState
from levelfield.protocol.schedule._scheduler import Scheduler
from levelfield.train import ImageInputs, _loaders, run_job


@pytest.mark.slow
def test_a_worker_ends_by_itself_after_an_error_with_loader_processes() -> None:
    runner = LocalEngine(workers=1)
    with pytest.raises(RunError, match="the run failed"), runner.open():
        try:
            run_tasks(runner, fail_with_loaders, [0])
        finally:
            worker = runner._workers[0]
    assert worker is not None and worker.process.exitcode == 0  # not killed


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_a_run_ends_its_loader_processes(
    ends: str, tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[_loaders.LoaderPool] = []
    real = _loaders.LoaderPool.load

    def load(self: _loaders.LoaderPool, requests: Any) -> Any:
        pools.append(self)
        return real(self, requests)

    def fail(*_: Any) -> None:
        raise RunError("the disk is gone")

    monkeypatch.setattr(_loaders.LoaderPool, "load", load)
    if ends == "badly":
        monkeypatch.setattr("levelfield.train._loop._Run._state", fail)
    training = tiny["training"] | {"max_epochs": 1, "evaluate_every": 1}
    wanted = job(tiny, tmp_path / "run", engine={"workers": 0, "loaders": 1}, training=training)
    try:
        run_job(wanted)
    except RunError as error:
        assert ends == "badly" and "the disk is gone" in str(error)
    with pytest.raises(RuntimeError, match="after shutdown"):
        pools[0]._pool.submit(int)


def test_a_loader_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(_loaders, "WATCHDOG_SECONDS", 0.01)
    inputs = ImageInputs(
        MemoryImages(np.zeros((1, 1, 4, 4), dtype=np.uint8)), partial(transforms.create, "none"), loaders=1
    )
    next(inputs.evaluate([np.array([0])]))
    assert inputs._pool is not None
    future: Future[Any] = Future()

    class Answers(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if not future.done():
                future.set_result("a batch")

    handler = Answers()
    logging.getLogger("levelfield").addHandler(handler)
    try:
        assert inputs._pool._wait_for(future) == "a batch"
    finally:
        logging.getLogger("levelfield").removeHandler(handler)
        inputs.close()
    assert "no batch has come from the loader processes" in caplog.text


def test_the_scheduler_says_what_it_waits_for() -> None:
    said = threading.Event()
    events: list[tuple[ProgressState, ProgressEvent]] = []

    class Callback:
        def update(self, progress_state: ProgressState, event: ProgressEvent) -> None:
            if event.kind == "waiting":
                events.append((progress_state, event))
                said.set()

    class SilentEngine:
        slots = 1
        number = -1

        def submit(self, task: Task) -> None:
            self.number = task.number

        def wait(self, timeout: float | None = None) -> list[TaskResult]:
            said.wait()
            return [TaskResult(self.number, result=1)]

    def flow() -> Flow[Any]:
        return (yield WaitForJobs([Job("one", abs, -1, "triplet", "search", priority=0)]))

    state = ProgressState(progress=Callback())
    state.add_row("triplet", 1)
    assert Scheduler(SilentEngine(), state, patience=0.01).run([flow()]) == [[1]]  # type: ignore[arg-type]  # results are Any
    assert "waiting for triplet (search)" in event_text(*events[0])


def test_a_lock_that_another_process_holds_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(files, "Watchdog", partial(Watchdog, patience=0.01))
    released = threading.Event()

    class Releases(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            released.set()

    handler, held = Releases(), threading.Event()

    def hold() -> None:
        with files.lock(tmp_path / "lock"):
            held.set()
            released.wait()

    thread = threading.Thread(target=hold)
    logging.getLogger("levelfield").addHandler(handler)
    try:
        thread.start()
        held.wait()
        with files.lock(tmp_path / "lock"):
            pass
    finally:
        logging.getLogger("levelfield").removeHandler(handler)
        thread.join()
    assert f"waiting for {tmp_path / 'lock'}" in caplog.text
