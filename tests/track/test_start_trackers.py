"""Trackers during a run: the records stay the same, the run ends, and problems are reported."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import tiny_values
from tests.helpers.warm import WarmProcess, run_warm

import levelfield as lf
from levelfield.cli._app import run_app
from levelfield.config import Experiment, TrackSpec
from levelfield.core.errors import UsageError
from levelfield.track import journal_file, start_trackers

pytestmark = pytest.mark.slow

TRACKERS = '''
import json, os, time
from pathlib import Path
import levelfield as lf

@lf.track.register("notebook")
class Notebook:
    """Writes each record to a file."""
    def __init__(self, *, experiment: str, directory: Path, page: str) -> None:
        self.page = Path(page)
    def log(self, entry: lf.track.TrackerRecord) -> None:
        with self.page.open("a") as file:
            file.write(json.dumps([entry.key, entry.name, entry.status]) + "\\n")
    def close(self) -> None:
        pass

@lf.track.register("broken")
class Broken:
    """Always fails."""
    def __init__(self, *, experiment: str, directory: Path) -> None:
        pass
    def log(self, entry: lf.track.TrackerRecord) -> None:
        print("noise")
        raise ConnectionError("no server")
    def close(self) -> None:
        raise RuntimeError("cannot even close")

@lf.track.register("hanging")
class Hanging:
    """Never returns."""
    def __init__(self, *, experiment: str, directory: Path, pid: str = "") -> None:
        if pid:
            Path(pid + ".tmp").write_text(str(os.getpid()))
            Path(pid + ".tmp").rename(pid)
    def log(self, entry: lf.track.TrackerRecord) -> None:
        time.sleep(3600)
    def close(self) -> None:
        time.sleep(3600)

@lf.track.register("flaky")
class Flaky:
    """Is down until its file appears."""
    def __init__(self, *, experiment: str, directory: Path, up: str) -> None:
        if not Path(up).exists():
            raise ConnectionError("not yet")
    def log(self, entry: lf.track.TrackerRecord) -> None:
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


@pytest.fixture(scope="module")
def small(plugin: Path) -> dict[str, Any]:
    """Values of the experiment; never change them."""
    values = tiny_values()
    return values | {
        "plugins": [*values["plugins"], str(plugin)],
        "methods": ["contrastive"],
        "search": {"trials": 1},
        "confirm": {"reruns": 1},
    }


@pytest.fixture(scope="module")
def alone(small: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of the finished experiment without trackers; never change it."""
    return lf.run(Experiment.build(**small), tmp_path_factory.mktemp("alone") / "out").path


def contents(root: Path) -> dict[str, bytes]:
    """Return the records whose bytes depend only on the experiment."""
    kept = ("spec.json", "result.json", "epochs.jsonl", "trial-0000.json", "rerun-00.json", "search.json")
    return {str(f.relative_to(root)): f.read_bytes() for f in sorted(root.rglob("*")) if f.name in kept}


def watched(values: dict[str, Any], root: Path, *, timeout: float = 600.0) -> list[str]:
    """Run an experiment with its trackers; return their messages."""
    experiment, said = Experiment.build(**values), list[str]()
    with start_trackers(experiment, root, report=said.append, poll=0.1, timeout=timeout):
        lf.run(experiment.model_copy(update={"track": ()}), root)
    return said


def test_a_tracker_that_fails_changes_nothing(small: dict[str, Any], alone: Path, tmp_path: Path) -> None:
    said = watched(small | {"track": ["broken"]}, tmp_path / "watched", timeout=600)
    assert contents(alone) == contents(tmp_path / "watched")
    assert len(said) == 2, "once when it fails, once at the end"
    assert "no server" in said[0] and "levelfield track" in said[1]
    assert "noise" in (tmp_path / "watched" / "tracking" / "broken.log").read_text()


def test_a_tracker_that_hangs_is_left_behind(small: dict[str, Any], alone: Path, tmp_path: Path) -> None:
    said = watched(small | {"track": ["hanging"]}, tmp_path / "watched", timeout=0.5)
    assert contents(alone) == contents(tmp_path / "watched")
    assert said == [
        "hanging: too slow to receive all records before the end of the run; "
        f"`levelfield track {tmp_path / 'watched'} --to hanging` sends them"
    ]


def test_a_tracker_receives_everything_once(
    small: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.jsonl"
    track = [{"name": "notebook", "page": str(page)}]
    assert watched(small | {"track": track}, tmp_path / "out") == []
    sent = [json.loads(line) for line in page.read_text().splitlines()]
    complete = [key for key, _, status in sent if status == "complete"]
    assert len(complete) == len(set(complete))
    names = {name for _, name, status in sent if status == "complete"}
    assert {"contrastive", "contrastive/trial-0000/fold-1", "contrastive/rerun-00"} <= names
    before = len(sent)
    plugin = small["plugins"][-1]
    arguments = ["track", str(tmp_path / "out"), "--to", "notebook", "--option", f"page={page}"]
    assert run_app([*arguments, "--plugin", plugin]) == 0
    assert "all records were sent already" in capsys.readouterr().out
    assert len(page.read_text().splitlines()) == before
    options = {"name": "notebook", "page": str(page)}
    journal_file(tmp_path / "out", TrackSpec.model_validate(options)).unlink()
    assert run_app([*arguments, "--plugin", plugin]) == 0
    assert "records sent" in capsys.readouterr().out


def test_a_tracker_that_comes_back_gets_everything(small: dict[str, Any], tmp_path: Path) -> None:
    up = tmp_path / "up"
    experiment = Experiment.build(**small | {"track": [{"name": "flaky", "up": str(up)}]})
    said: list[str] = []
    with start_trackers(experiment, tmp_path / "out", report=said.append, poll=0.1, timeout=600):
        lf.run(experiment.model_copy(update={"track": ()}), tmp_path / "out")
        deadline = time.monotonic() + 600
        while not said and time.monotonic() < deadline:
            time.sleep(0.05)
        up.write_text("")
    assert len(said) == 2 and "not yet" in said[0] and "reachable again; all records are sent" in said[1]


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


def test_a_tracker_that_is_not_installed_is_reported(
    small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from levelfield.track import _registry

    monkeypatch.setattr(_registry, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'levelfield\[wandb\]'"):
        lf.run(Experiment.build(**small | {"track": ["wandb"]}), tmp_path / "out")


def test_a_tracker_ends_when_its_run_is_killed(small: dict[str, Any], alone: Path, tmp_path: Path) -> None:
    """The worker exits at the end of its stdin."""
    page = tmp_path / "page.jsonl"
    values = small | {"track": [{"name": "notebook", "page": str(page)}]}
    root = Path(shutil.copytree(alone, tmp_path / "out"))
    script = (
        "import sys, json, time\nfrom pathlib import Path\nfrom levelfield.config import Experiment\n"
        "from levelfield.track import start_trackers\n"
        f"experiment = Experiment.build(**json.loads({json.dumps(json.dumps(values))}))\n"
        f"with start_trackers(experiment, Path({str(root)!r}), poll=0.1):\n    time.sleep(600)\n"
    )
    parent = WarmProcess(["-c", script])
    deadline = time.monotonic() + 600
    try:
        while not page.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        workers = children(parent.pid)
        assert len(workers) == 1
    finally:
        parent.kill()
        parent.wait()
    while Path(f"/proc/{workers[0]}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{workers[0]}").exists()


def test_the_tracker_of_a_killed_run_does_not_keep_the_next_one_out(
    small: dict[str, Any], alone: Path, tmp_path: Path
) -> None:
    """A hanging tracker ends after its run's timeout; the next tracker waits for that."""
    root, pid = Path(shutil.copytree(alone, tmp_path / "out")), tmp_path / "pid"
    hanging = small | {"track": [{"name": "hanging", "pid": str(pid)}]}
    script = (
        "import os, json, time\nfrom pathlib import Path\nfrom levelfield.config import Experiment\n"
        "from levelfield.track import start_trackers\n"
        f"experiment = Experiment.build(**json.loads({json.dumps(json.dumps(hanging))}))\n"
        f"with start_trackers(experiment, Path({str(root)!r}), poll=0.1, timeout=1):\n"
        f"    while not Path({str(pid)!r}).exists(): time.sleep(0.05)\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert run_warm(["-c", script]).returncode == -9
    pid.unlink()
    said: list[str] = []
    with start_trackers(Experiment.build(**hanging), root, report=said.append, poll=0.1, timeout=0.5):
        deadline = time.monotonic() + 600
        while not pid.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert pid.exists(), "the new tracker began"
    assert len(said) == 1 and "too slow" in said[0]


def test_the_table_is_shown_before_the_wait_for_slow_trackers(
    small: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import contextmanager

    from levelfield import api
    from levelfield.cli._show import run_and_show

    shown: list[str] = []

    @contextmanager
    def slow(experiment: Experiment, root: Path) -> Iterator[None]:
        yield
        shown.append(capsys.readouterr().out)

    monkeypatch.setattr(api, "with_trackers", slow)
    run_and_show(Experiment.build(**small), tmp_path / "out", quiet=False, as_json=False)
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
