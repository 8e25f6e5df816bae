"""What goes wrong in a worker is said in one line that names the cause."""

from __future__ import annotations

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
from levelfield.config import EngineSpec
from levelfield.engine import Finished, LocalEngine, LostTaskError, Report, Runner, Task, run_all
from levelfield.errors import RunError, UsageError
from odd_jobs import (
    be_killed,
    be_killed_if_negative,
    be_killed_the_first_time,
    count_up,
    crash_if_negative,
    die_of,
    leave,
    visible_gpu,
    whisper,
)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_job_that_exits_is_an_error(workers: int) -> None:
    """Also with code 0: the command must not end as if all were well."""
    with (
        pytest.raises(RunError, match=r"called sys\.exit\(0\)"),
        engine.create(EngineSpec(workers=workers)) as runner,
    ):
        run_all(runner, leave, [0])


def test_where_nothing_works_nobody_is_blamed() -> None:
    """Not the task: whatever kills every worker would otherwise fill the records with failures."""
    with (
        pytest.raises(RunError, match=r"worker processes die \(killed by SIGKILL, as a lack of memory does"),
        LocalEngine(workers=1).open() as runner,
    ):
        run_all(runner, be_killed, [0])


def outcomes(runner: Runner, function: Any, jobs: list[Any]) -> list[Finished]:
    """What came of each job, by its number; as the scheduler does it."""
    waiting = [Task(number, function, job) for number, job in enumerate(jobs)][::-1]
    held, found = 0, {}
    while len(found) < len(jobs):
        while waiting and held < runner.slots:
            runner.submit(waiting.pop())
            held += 1
        for event in runner.wait():
            if isinstance(event, Finished):
                held -= 1
                found[event.number] = event
    return [found[number] for number in range(len(jobs))]


@pytest.mark.parametrize(("workers", "jobs"), [(1, [-1, 5, 6]), (2, [4, -1, 5, -2, 6])])
def test_a_task_that_kills_its_worker_each_time_is_lost_and_the_rest_goes_on(
    workers: int, jobs: list[int]
) -> None:
    with LocalEngine(workers=workers).open() as runner:
        found = outcomes(runner, be_killed_if_negative, jobs)
    for job, each in zip(jobs, found, strict=True):
        if job < 0:
            assert isinstance(each.error, LostTaskError)
            assert "died 3 times, the last time alone on the machine: killed by SIGKILL" in str(each.error)
        else:
            assert each.result == job


def test_however_a_worker_dies_its_task_is_tried_again_and_the_rest_goes_on() -> None:
    words = {
        "killed": "killed by SIGKILL, as a lack of memory does",
        "segmentation fault": "its last words: Fatal Python error: Segmentation fault",
        "import error": "its last words: ModuleNotFoundError: No module named 'a_module_that_nobody_has'",
        "no memory": "its last words: MemoryError: no memory left",
        "no memory for a tensor": "can't allocate memory",
    }
    with LocalEngine(workers=2).open() as runner:
        alive, *dead, also_alive = outcomes(runner, die_of, ["nothing", *words, "nothing"])
    assert alive.result == also_alive.result == "nothing"
    for each, expected in zip(dead, words.values(), strict=True):
        assert isinstance(each.error, LostTaskError)
        assert "died 3 times, the last time alone" in str(each.error) and expected in str(each.error)


def test_a_place_whose_workers_cannot_start_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from levelfield.engine import _local

    started: list[str] = []

    class SecondNeverStarts(_local.Worker):
        def __init__(self, words: Path, gpu: str | None) -> None:
            super().__init__(words, gpu)
            started.append(words.name)
            if len(started) > 1:
                self.process.kill()

    monkeypatch.setattr(_local, "Worker", SecondNeverStarts)
    with LocalEngine(workers=2).open() as runner:
        assert run_all(runner, whisper, list(range(8))) == list(range(8))
    assert len(started) <= 1 + 2 * 3, "it is not tried for ever"


def test_a_killed_worker_is_replaced_and_its_task_tried_again(tmp_path: Path) -> None:
    with LocalEngine(workers=1).open() as runner:
        assert run_all(runner, be_killed_the_first_time, [tmp_path]) == [2]


def test_the_last_words_of_a_crash_name_the_line() -> None:
    with LocalEngine(workers=1).open() as runner:
        _, lost = outcomes(runner, crash_if_negative, [1, -1])
    assert "killed by SIGSEGV; its last words: Fatal Python error: Segmentation fault" in str(lost.error)


def test_what_a_worker_says_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    with LocalEngine(workers=1).open() as runner:
        assert run_all(runner, whisper, [3, 4]) == [3, 4]
    assert capfd.readouterr().err == "a warning about 3\na warning about 4\n"


def test_a_long_task_says_how_far_it_is() -> None:
    with LocalEngine(workers=1).open() as runner:
        runner.submit(Task(9, count_up, 6))
        events: list[Finished | Report] = []
        while not any(isinstance(event, Finished) for event in events):
            events += runner.wait()
    assert events[0] == Report(9, 0, 6)
    assert len(events) < 6, "not every step: the display is not worth it"


def test_gpus_are_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faked: there are none here. Each of four workers sees one of two GPUs."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("levelfield.engine._machine.gpus", lambda: ["3", "7"])
    spec = EngineSpec.model_validate({"workers": "auto", "device": "auto", "runs_per_gpu": 2})
    assert engine.device_of(spec) == "cuda" and engine.workers_of(spec) == 4
    with engine.create(spec) as runner:
        assert runner.slots == 4
        assert sorted(run_all(runner, visible_gpu, [1.0] * 4)) == ["3", "3", "7", "7"]
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
    monkeypatch.setattr("levelfield.train.available_cores", lambda: 6)
    assert engine.workers_of(EngineSpec(workers="auto", threads=4, device="cpu")) == 1
    assert engine.workers_of(EngineSpec(workers="auto", device="cpu")) == 6


def test_a_cluster_has_what_the_driver_may_lack() -> None:
    def device(**values: Any) -> str:
        return engine.device_of(EngineSpec.model_validate({"name": "ray", **values}))

    assert device(device="cuda") == "cuda" == device(gpus=0.5) and device() == "cpu"


def test_cores_of_a_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from levelfield.train import _devices

    monkeypatch.setattr(_devices, "CGROUP_QUOTA", tmp_path / "cpu.max")
    unbound = _devices.available_cores()
    (tmp_path / "cpu.max").write_text("100000 100000\n")
    assert _devices.available_cores() == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert _devices.available_cores() == unbound


def test_what_a_worker_cannot_import_is_named(tmp_path: Path) -> None:
    """A module that is there when a job is made, and gone when the worker needs it."""
    (tmp_path / "gone_module.py").write_text("def job(x):\n    return x\n")
    code = (
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport gone_module, os\n"
        "from levelfield.engine import LocalEngine, run_all\n"
        "if __name__ == '__main__':\n"
        f"    os.remove({str(tmp_path / 'gone_module.py')!r})\n"
        "    with LocalEngine(workers=1).open() as engine:\n"
        "        sys.path.pop(0)\n"
        "        run_all(engine, gone_module.job, [1])\n"
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


def test_a_script_without_a_guard_gets_the_right_hint(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny |= {"engine": {"workers": 1}, "methods": ["triplet"]}
    script = tmp_path / "script.py"
    script.write_text(
        f"import levelfield as lf\nlf.run(lf.Experiment.build(**{tiny!r}), {str(tmp_path / 'out')!r})\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert 'if __name__ == "__main__":' in last and "out of memory" not in last


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
    """Holds five tasks, and carries out the last one first."""

    slots = 5

    def __init__(self) -> None:
        self.tasks: list[Task] = []

    def submit(self, task: Task) -> None:
        self.tasks.append(task)

    def wait(self, timeout: float | None = None) -> list[Finished | Report]:
        task = self.tasks.pop()
        return [engine.carry_out(task.number, task.function, task.job)]


def test_an_engine_of_ones_own(tiny: dict[str, Any], tmp_path: Path) -> None:
    opened = []

    @engine.register("backwards")
    @contextmanager
    def backwards(*, threads: int = 1, note: str = "") -> Iterator[Runner]:
        """Last job first."""
        opened.append((threads, note))
        yield _Backwards()

    tiny["methods"] = ["triplet"]
    mine = lf.run(
        lf.Experiment.build(**tiny | {"engine": {"name": "backwards", "note": "hello"}}), tmp_path / "mine"
    )
    usual = lf.run(lf.Experiment.build(**tiny), tmp_path / "usual")
    assert opened == [(1, "hello")]
    results = [(root / "report" / "results.csv").read_bytes() for root in (mine, usual)]
    assert results[0] == results[1]


def test_torchrun_by_name_needs_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(UsageError, match="torchrun --nproc-per-node N -m levelfield run FILE"):
        engine.create(EngineSpec(name="torchrun"))
    monkeypatch.setenv("WORLD_SIZE", "1")
    with engine.create(EngineSpec(name="torchrun")) as runner:
        assert run_all(runner, abs, [-1]) == [1]


def test_unknown_engines_and_options_are_refused() -> None:
    with pytest.raises(UsageError, match=r'unknown engine "locl"; did you mean "local"'):
        engine.create(EngineSpec(name="locl"))
    with pytest.raises(UsageError, match=r'engine "local" has no parameter "wokers"; did you mean "workers"'):
        engine.create(EngineSpec.model_validate({"wokers": 2}))
