"""An error in a worker is reported in one line that names the cause."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.helpers.odd_jobs import (
    be_killed,
    be_killed_if_negative,
    be_killed_the_first_time,
    count_up,
    crash_if_negative,
    die_of,
    exit_with,
    visible_gpu,
    write_to_stderr,
)

import levelfield as lf
from levelfield import engine
from levelfield.config import EngineSpec
from levelfield.core.errors import RunError, UsageError
from levelfield.engine import Engine, LocalEngine, LostTaskError, ProgressReport, Task, TaskResult, run_tasks


@pytest.mark.parametrize("workers", [0, 1])
def test_a_job_that_exits_is_an_error(workers: int) -> None:
    """Also with code 0: the command must not end as a success."""
    with (
        pytest.raises(RunError, match=r"called sys\.exit\(0\)"),
        engine.create(EngineSpec(workers=workers)) as runner,
    ):
        run_tasks(runner, exit_with, [0])


@pytest.mark.slow
def test_if_every_worker_dies_no_task_is_lost() -> None:
    """Otherwise a fault of the machine would fill the records with failures."""
    with (
        pytest.raises(RunError, match=r"worker processes die \(killed by SIGKILL, often for lack of memory"),
        LocalEngine(workers=1).open() as runner,
    ):
        run_tasks(runner, be_killed, [0])


def results_of(runner: Engine, function: Any, jobs: list[Any]) -> list[TaskResult]:
    """Return the result of each job in order, as the scheduler does it."""
    waiting = [Task(number, function, job) for number, job in enumerate(jobs)][::-1]
    held, found = 0, dict[int, TaskResult]()
    while len(found) < len(jobs):
        while waiting and held < runner.slots:
            runner.submit(waiting.pop())
            held += 1
        for event in runner.wait():
            if isinstance(event, TaskResult):
                held -= 1
                found[event.number] = event
    return [found[number] for number in range(len(jobs))]


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "jobs"), [(1, [-1, 5, 6]), (2, [4, -1, 5, -2, 6])])
def test_a_task_that_kills_its_worker_each_time_is_lost_and_the_rest_goes_on(
    workers: int, jobs: list[int]
) -> None:
    with LocalEngine(workers=workers).open() as runner:
        found = results_of(runner, be_killed_if_negative, jobs)
    for job, each in zip(jobs, found, strict=True):
        if job < 0:
            assert isinstance(each.error, LostTaskError)
            assert "died 3 times, the last time alone on the machine: killed by SIGKILL" in str(each.error)
        else:
            assert each.result == job


@pytest.mark.slow
def test_a_worker_reads_relative_paths_where_its_parent_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # as in a notebook
    with LocalEngine(workers=1).open() as runner:
        (found,) = results_of(runner, Path.absolute, [Path("photos")])
    assert found.result == tmp_path / "photos"


@pytest.mark.slow
def test_however_a_worker_dies_its_task_is_tried_again_and_the_rest_goes_on() -> None:
    outputs = {
        "killed": "killed by SIGKILL, often for lack of memory",
        "segmentation fault": "its last output: Fatal Python error: Segmentation fault",
        "import error": "its last output: ModuleNotFoundError: No module named 'a_missing_module'",
        "no memory": "its last output: MemoryError: no memory left",
        "no memory for a tensor": "can't allocate memory",
    }
    with LocalEngine(workers=2).open() as runner:
        alive, *dead, also_alive = results_of(runner, die_of, ["nothing", *outputs, "nothing"])
    assert alive.result == also_alive.result == "nothing"
    for each, expected in zip(dead, outputs.values(), strict=True):
        assert isinstance(each.error, LostTaskError)
        assert "died 3 times, the last time alone" in str(each.error) and expected in str(each.error)


def test_a_place_whose_workers_cannot_start_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from levelfield.engine import _local
    from levelfield.engine._worker import Worker

    started: list[str] = []

    class SecondNeverStarts(Worker):
        def __init__(self, stderr_file: Path, gpu: str | None) -> None:
            super().__init__(stderr_file, gpu)
            started.append(stderr_file.name)
            if len(started) > 1:
                self.process.kill()

    monkeypatch.setattr(_local, "Worker", SecondNeverStarts)
    with LocalEngine(workers=2).open() as runner:
        assert run_tasks(runner, write_to_stderr, list(range(8))) == list(range(8))
    assert len(started) <= 1 + 2 * 3, "starting it is not tried forever"


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_task_tried_again(tmp_path: Path) -> None:
    with LocalEngine(workers=1).open() as runner:
        assert run_tasks(runner, be_killed_the_first_time, [tmp_path]) == [2]


@pytest.mark.slow
def test_the_last_output_of_a_crash_names_the_line() -> None:
    with LocalEngine(workers=1).open() as runner:
        _, lost = results_of(runner, crash_if_negative, [1, -1])
    assert "killed by SIGSEGV; its last output: Fatal Python error: Segmentation fault" in str(lost.error)


def test_the_stderr_of_a_worker_is_forwarded(capfd: pytest.CaptureFixture[str]) -> None:
    with LocalEngine(workers=1).open() as runner:
        assert run_tasks(runner, write_to_stderr, [3, 4]) == [3, 4]
    assert capfd.readouterr().err == "a warning about 3\na warning about 4\n"


def test_a_long_task_reports_its_progress() -> None:
    with LocalEngine(workers=1).open() as runner:
        runner.submit(Task(9, count_up, 6))
        events: list[TaskResult | ProgressReport] = []
        while not any(isinstance(event, TaskResult) for event in events):
            events += runner.wait()
    assert events[0] == ProgressReport(9, 0, 6)
    assert len(events) < 6, "not every step is reported"


@pytest.mark.slow
def test_gpus_are_handed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of four workers sees one of two GPUs (faked)."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("levelfield.engine._machine.gpus", lambda: ["3", "7"])
    spec = EngineSpec.model_validate({"workers": "auto", "device": "auto", "runs_per_gpu": 2})
    assert engine.worker_device(spec) == "cuda" and engine.worker_count(spec) == 4
    with engine.create(spec) as runner:
        assert runner.slots == 4
        assert sorted(run_tasks(runner, visible_gpu, [tmp_path] * 4)) == ["3", "3", "7", "7"]
    with pytest.raises(UsageError, match="the 2 GPUs here take 1 runs each; set it to 2 or auto"):
        engine.create(EngineSpec(workers=3, device="cuda"))


def test_gpus_by_the_names_that_are_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    from levelfield.engine import _machine

    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert _machine.gpus() == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b")
    assert _machine.gpus() == ["GPU-a", "GPU-b"]


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelfield.core.devices.available_cores", lambda: 6)
    assert engine.worker_count(EngineSpec(workers="auto", threads=4, device="cpu")) == 1
    assert engine.worker_count(EngineSpec(workers="auto", device="cpu")) == 6


def test_a_cluster_has_what_the_driver_may_lack() -> None:
    def device(**values: Any) -> str:
        return engine.worker_device(EngineSpec.model_validate({"name": "ray", **values}))

    assert device(device="cuda") == "cuda" == device(gpus=0.5) and device() == "cpu"


def test_cores_of_a_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from levelfield.core import devices

    monkeypatch.setattr(devices, "CGROUP_QUOTA", tmp_path / "cpu.max")
    unbound = devices.available_cores()
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert devices.available_cores() == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert devices.available_cores() == unbound


@pytest.mark.slow
def test_what_a_worker_cannot_import_is_named(tmp_path: Path) -> None:
    """The module exists when the job is created and is gone when the worker imports it."""
    (tmp_path / "gone_module.py").write_text("def job(x):\n    return x\n")
    code = (
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport gone_module, os\n"
        "from levelfield.engine import LocalEngine, run_tasks\n"
        "if __name__ == '__main__':\n"
        f"    os.remove({str(tmp_path / 'gone_module.py')!r})\n"
        "    with LocalEngine(workers=1).open() as engine:\n"
        "        sys.path.pop(0)\n"
        "        run_tasks(engine, gone_module.job, [1])\n"
    )
    script = tmp_path / "script.py"
    script.write_text(
        code.replace("import gone_module, os\n", "import os\n").replace(
            "if __name__ == '__main__':\n", "if __name__ == '__main__':\n    import gone_module\n"
        )
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert "worker processes die" in last and "No module named 'gone_module'" in last


@pytest.mark.slow
def test_a_script_without_a_guard_gets_the_right_hint(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny |= {"engine": {"workers": 1}, "methods": ["triplet"]}
    script = tmp_path / "script.py"
    script.write_text(
        f"import levelfield as lf\nlf.run(lf.Experiment.build(**{tiny!r}), {str(tmp_path / 'out')!r})\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert 'if __name__ == "__main__":' in last and "out of memory" not in last


@pytest.mark.slow
def test_a_plugin_that_exits_while_it_is_imported(tiny: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "leaver.py").write_text("import sys\nsys.exit(0)\n")
    file = tmp_path / "x.yaml"
    file.write_text(yaml.safe_dump(tiny | {"plugins": ["leaver.py"]}))
    done = subprocess.run(
        [sys.executable, "-m", "levelfield", "run", str(file), "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "leaver.py fails on import: it calls sys.exit(0)" in done.stderr


class _Backwards:
    """Holds five tasks and executes the last one first."""

    slots = 5

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def submit(self, task: Task) -> None:
        self.tasks.append(task)

    def wait(self, timeout: float | None = None) -> list[TaskResult | ProgressReport]:
        task = self.tasks.pop()
        return [engine.execute_task(task.number, task.function, task.job)]


@pytest.mark.slow
def test_a_custom_engine(tiny: dict[str, Any], tmp_path: Path) -> None:
    opened = []

    @engine.register("backwards")
    @contextmanager
    def backwards(*, threads: int = 1, note: str = "") -> Iterator[Engine]:
        """Execute the last job first."""
        opened.append((threads, note))
        yield _Backwards()

    tiny["methods"] = ["triplet"]
    mine = lf.run(
        lf.Experiment.build(**tiny | {"engine": {"name": "backwards", "note": "hello"}}), tmp_path / "mine"
    )
    usual = lf.run(lf.Experiment.build(**tiny), tmp_path / "usual")
    assert opened == [(1, "hello")]
    results = [(result.path / "report" / "results.csv").read_bytes() for result in (mine, usual)]
    assert results[0] == results[1]


def test_torchrun_by_name_needs_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(UsageError, match="torchrun --nproc-per-node N -m levelfield run FILE"):
        engine.create(EngineSpec(name="torchrun"))
    monkeypatch.setenv("WORLD_SIZE", "1")
    with engine.create(EngineSpec(name="torchrun")) as runner:
        assert run_tasks(runner, abs, [-1]) == [1]


def test_unknown_engines_and_options_are_refused() -> None:
    with pytest.raises(UsageError, match=r'unknown engine "locl"; did you mean "local"'):
        engine.create(EngineSpec(name="locl"))
    with pytest.raises(UsageError, match=r'engine "local" has no parameter "wokers"; did you mean "workers"'):
        engine.create(EngineSpec.model_validate({"wokers": 2}))
