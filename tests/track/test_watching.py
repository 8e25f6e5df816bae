"""A tracker beside a run: whatever it does, the records are the same, the run ends, and a line says so."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.cli._app import run_app
from levelfield.config import Experiment, TrackSpec
from levelfield.errors import UsageError
from levelfield.track import journal_file, watching

TRACKERS = '''
import json, os, time
from pathlib import Path
import levelfield as lf

@lf.track.register("notebook")
class Notebook:
    """Writes down what it is told."""
    def __init__(self, *, experiment: str, folder: Path, page: str) -> None:
        self.page = Path(page)
    def tell(self, entry: lf.track.Entry) -> None:
        with self.page.open("a") as file:
            file.write(json.dumps([entry.key, entry.name, entry.status]) + "\\n")
    def close(self) -> None:
        pass

@lf.track.register("broken")
class Broken:
    """Always fails."""
    def __init__(self, *, experiment: str, folder: Path) -> None:
        pass
    def tell(self, entry: lf.track.Entry) -> None:
        print("noise that nobody wants to see")
        raise ConnectionError("nobody there")
    def close(self) -> None:
        raise RuntimeError("cannot even close")

@lf.track.register("hanging")
class Hanging:
    """Never answers."""
    def __init__(self, *, experiment: str, folder: Path, pid: str = "") -> None:
        if pid:
            Path(pid + ".tmp").write_text(str(os.getpid()))
            Path(pid + ".tmp").rename(pid)
    def tell(self, entry: lf.track.Entry) -> None:
        time.sleep(3600)
    def close(self) -> None:
        time.sleep(3600)

@lf.track.register("flaky")
class Flaky:
    """Is down until its file appears."""
    def __init__(self, *, experiment: str, folder: Path, up: str) -> None:
        if not Path(up).exists():
            raise ConnectionError("not yet")
    def tell(self, entry: lf.track.Entry) -> None:
        pass
    def close(self) -> None:
        pass
'''


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file for all tests: a process registers a name once."""
    file = tmp_path_factory.mktemp("plugin") / "trackers.py"
    file.write_text(TRACKERS)
    return file


@pytest.fixture
def small(tiny: dict[str, Any], plugin: Path) -> dict[str, Any]:
    plugins = [*tiny["plugins"], str(plugin)]
    return tiny | {
        "plugins": plugins,
        "methods": ["contrastive"],
        "search": {"trials": 1},
        "confirm": {"reruns": 1},
    }


def contents(root: Path) -> dict[str, bytes]:
    """The records whose bytes depend on nothing but the experiment."""
    kept = ("spec.json", "result.json", "epochs.jsonl", "trial-0000.json", "rerun-00.json", "search.json")
    return {str(f.relative_to(root)): f.read_bytes() for f in sorted(root.rglob("*")) if f.name in kept}


def watched(values: dict[str, Any], root: Path, *, patience: float = 600.0) -> list[str]:
    """Run an experiment beside its trackers; what they had to say."""
    experiment, said = Experiment.build(**values), []
    with watching(experiment, root, say=said.append, poll=0.1, patience=patience):
        lf.run(experiment.model_copy(update={"track": ()}), root)
    return said


def test_a_tracker_that_fails_changes_nothing(small: dict[str, Any], tmp_path: Path) -> None:
    alone = lf.run(Experiment.build(**small), tmp_path / "alone")
    said = watched(small | {"track": ["broken"]}, tmp_path / "watched", patience=600)
    assert contents(alone) == contents(tmp_path / "watched")
    assert len(said) == 2, "once when it fails, once at the end"
    assert "nobody there" in said[0] and "levelfield track" in said[1]
    assert "noise" in (tmp_path / "watched" / "tracking" / "broken.log").read_text()


def test_a_tracker_that_hangs_is_left_behind(small: dict[str, Any], tmp_path: Path) -> None:
    alone = lf.run(Experiment.build(**small), tmp_path / "alone")
    said = watched(small | {"track": ["hanging"]}, tmp_path / "watched", patience=1)
    assert contents(alone) == contents(tmp_path / "watched")
    assert said == [
        "hanging: was too slow to take everything before the end; "
        f"`levelfield track {tmp_path / 'watched'} --to hanging` sends them"
    ]


def test_a_tracker_is_told_everything_once(
    small: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.jsonl"
    track = [{"name": "notebook", "page": str(page)}]
    assert watched(small | {"track": track}, tmp_path / "out") == []
    told = [json.loads(line) for line in page.read_text().splitlines()]
    complete = [key for key, _, status in told if status == "complete"]
    assert len(complete) == len(set(complete))
    names = {name for _, name, status in told if status == "complete"}
    assert {"contrastive", "contrastive/trial-0000/fold-1", "contrastive/rerun-00"} <= names
    before = len(told)
    plugin = small["plugins"][-1]
    arguments = ["track", str(tmp_path / "out"), "--to", "notebook", "--option", f"page={page}"]
    assert run_app([*arguments, "--plugin", plugin]) == 0
    assert "knows everything" in capsys.readouterr().out
    assert len(page.read_text().splitlines()) == before
    options = {"name": "notebook", "page": str(page)}
    journal_file(tmp_path / "out", TrackSpec.model_validate(options)).unlink()
    assert run_app([*arguments, "--plugin", plugin]) == 0
    assert "entries sent" in capsys.readouterr().out


def test_a_tracker_that_comes_back_gets_everything(small: dict[str, Any], tmp_path: Path) -> None:
    up = tmp_path / "up"
    experiment = Experiment.build(**small | {"track": [{"name": "flaky", "up": str(up)}]})
    said: list[str] = []
    with watching(experiment, tmp_path / "out", say=said.append, poll=0.1, patience=600):
        lf.run(experiment.model_copy(update={"track": ()}), tmp_path / "out")
        deadline = time.monotonic() + 600
        while not said and time.monotonic() < deadline:
            time.sleep(0.05)
        up.write_text("")
    assert len(said) == 2 and "not yet" in said[0] and "reached again; everything is sent" in said[1]


@pytest.mark.parametrize(
    ("track", "message"),
    [
        (["tensorbord"], 'unknown tracker "tensorbord"; did you mean "tensorboard"'),
        ([{"name": "tensorboard", "port": 3}], "port"),
    ],
)
def test_a_wrong_tracker_is_refused_before_anything_runs(
    small: dict[str, Any], tmp_path: Path, track: list[Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        lf.run(Experiment.build(**small | {"track": track}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_tracker_that_is_not_installed_is_named(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from levelfield.track import _registry

    monkeypatch.setattr(_registry, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'levelfield\[wandb\]'"):
        lf.run(Experiment.build(**small | {"track": ["wandb"]}), tmp_path / "out")


def test_a_tracker_ends_when_its_run_is_killed(small: dict[str, Any], tmp_path: Path) -> None:
    """The worker sees the end of its input. One that hangs in its tool at that moment is not waited for."""
    page = tmp_path / "page.jsonl"
    values = small | {"track": [{"name": "notebook", "page": str(page)}]}
    root = lf.run(Experiment.build(**small), tmp_path / "out")
    script = (
        "import sys, json, time\nfrom pathlib import Path\nfrom levelfield.config import Experiment\n"
        "from levelfield.track import watching\n"
        f"experiment = Experiment.build(**json.loads({json.dumps(json.dumps(values))}))\n"
        f"with watching(experiment, Path({str(root)!r}), poll=0.1):\n    time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + 600
    try:
        while not page.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        workers = children(parent.pid)
        assert len(workers) == 1
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    while Path(f"/proc/{workers[0]}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{workers[0]}").exists()


def test_the_tracker_of_a_killed_run_does_not_keep_the_next_one_out(
    small: dict[str, Any], tmp_path: Path
) -> None:
    """It hangs in its tool; it ends when its run's patience is over, and the next one waits for that."""
    root, pid = lf.run(Experiment.build(**small), tmp_path / "out"), tmp_path / "pid"
    hanging = small | {"track": [{"name": "hanging", "pid": str(pid)}]}
    script = (
        "import os, json, time\nfrom pathlib import Path\nfrom levelfield.config import Experiment\n"
        "from levelfield.track import watching\n"
        f"experiment = Experiment.build(**json.loads({json.dumps(json.dumps(hanging))}))\n"
        f"with watching(experiment, Path({str(root)!r}), poll=0.1, patience=3):\n"
        f"    while not Path({str(pid)!r}).exists(): time.sleep(0.05)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    pid.unlink()
    said: list[str] = []
    with watching(Experiment.build(**hanging), root, say=said.append, poll=0.1, patience=1):
        deadline = time.monotonic() + 600
        while not pid.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert pid.exists(), "the new tracker began"
    assert len(said) == 1 and "too slow" in said[0]


def test_the_table_is_shown_before_slow_trackers_are_waited_for(
    small: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import contextmanager

    from levelfield import app
    from levelfield.cli._show import carry_out

    shown: list[str] = []

    @contextmanager
    def slow(experiment: Experiment, root: Path) -> Iterator[None]:
        yield
        shown.append(capsys.readouterr().out)

    monkeypatch.setattr(app, "watched", slow)
    carry_out(Experiment.build(**small), tmp_path / "out", quiet=False, as_json=False)
    assert "Report:" in shown[0] and "contrastive" in shown[0]


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if int(parent) == pid:
                found.append(int(entry.name))
    return found


def test_track_needs_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["track", str(tmp_path), "--to", "tensorboard"]) == 2
    assert "holds no levelfield experiment" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
