"""A real Ray cluster of three nodes on this machine: the same bits as in one process, whatever happens.

The nodes have caches of their own. The third one does not have the dataset, but another one of that name.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

import levelfield as lf
from levelfield import engine
from levelfield.config import EngineSpec
from levelfield.engine import Finished, Task
from levelfield.engine._parcel import moved, pack, put_in_place
from levelfield.errors import RunError, UsageError
from levelfield.protocol import Board, Event
from odd_jobs import be_killed
from records_snapshot import differences, records_of

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

DELAYED = Path(__file__).parent.parent / "delayed_plugin.py"

DRIVER_ONLY = """
import os
import levelfield as lf
from levelfield.losses.contrastive import Contrastive
from helper_of_driver_only import MARGIN

assert not ("LEVELFIELD_TEST_NODE" in os.environ and "driver_only_folder" in __file__), "not on a node"

@lf.losses.register("driver_only", space={"neg_margin": lf.Float(0.1, MARGIN)})
class DriverOnly(Contrastive):
    "A loss in a file that only the driver has."
"""

SLOW = """
import os, time, uuid
import levelfield as lf
from levelfield.losses.contrastive import Contrastive

@lf.losses.register("slow_on_nodes", space={"neg_margin": lf.Float(0.1, 1.0)})
class SlowOnNodes(Contrastive):
    "Takes its time on the cluster, and notes each of its steps in a file there."
    def __init__(self, **options):
        super().__init__(**options)
        self.me = uuid.uuid4().hex

    def forward(self, embeddings, labels, *rest):
        if "LEVELFIELD_TEST_NODE" in os.environ:
            with open(os.environ["LEVELFIELD_TEST_STEPS"], "a") as file:
                file.write(self.me + "\\n")
            time.sleep(0.15)
        return super().forward(embeddings, labels, *rest)
"""


class ThreeNodes:
    """Ray's own cluster utility, with a folder of its own, and nodes that can be killed and replaced."""

    def __init__(self, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self.folder = folder
        self.cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "env_vars": self._surroundings("head")}
        )
        Image.new("RGB", (16, 16)).save(_made(folder / "another" / "class 00") / "0.png")
        self.nodes = [self.add("second"), self.add("third", LEVELFIELD_ROOT_FOLDER=str(folder / "another"))]
        self.address = self.cluster.address

    def add(self, name: str, *, num_cpus: int = 1, **surroundings: str) -> Any:
        return self.cluster.add_node(num_cpus=num_cpus, env_vars=self._surroundings(name) | surroundings)

    def _surroundings(self, name: str) -> dict[str, str]:
        return {
            "LEVELFIELD_TEST_NODE": name,
            "LEVELFIELD_TEST_STEPS": str(self.folder / "steps"),
            "LEVELFIELD_CACHE": str(self.folder / f"cache of {name}"),
            "OMP_NUM_THREADS": "1",
        }


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    """Without tokens in the home folder, and with sockets where their names are short enough."""
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_AUTH_MODE", "disabled")
    patch.setenv("RAY_worker_niceness", "0")  # a busy machine would starve them
    patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    made = ThreeNodes(tmp_path_factory.mktemp("ray"))
    yield made
    made.cluster.shutdown()
    patch.undo()


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """On image files, with a plug-in and its helper in a folder of the driver's."""
    from conftest import tiny_values

    folder = tmp_path_factory.mktemp("driver_only_folder")
    (folder / "driver_only.py").write_text(DRIVER_ONLY)
    (folder / "helper_of_driver_only.py").write_text("MARGIN = 1.0\n")
    random = np.random.default_rng(0)
    for label in range(24):
        pattern = random.integers(0, 256, (16, 16))
        (folder / "images" / f"class {label:02d}").mkdir(parents=True)
        for number in range(6):
            noisy = (pattern + random.normal(0, 60, (16, 16))).clip(0, 255).astype(np.uint8)
            Image.fromarray(noisy).convert("RGB").save(
                folder / "images" / f"class {label:02d}" / f"{number}.png"
            )
    values = tiny_values()
    values["plugins"] = [str(folder / "driver_only.py"), str(DELAYED)]
    values["dataset"] = {"name": "folder", "root": str(folder / "images")}
    values["trunk"] = {"name": "conv4", "width": 4}
    values["training"] = {"iterations_per_epoch": 4, "max_epochs": 4, "evaluate_every": 1, "patience": None}
    values["methods"] = ["driver_only", "triplet", "delayed"]
    values["search"] = {"trials": 3, "sampler": "random"}
    values["confirm"] = {"reruns": 1}
    return values


@pytest.fixture(scope="module")
def expected(experiment: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The records of one process."""
    return records_of(lf.run(lf.Experiment.build(**experiment), tmp_path_factory.mktemp("alone") / "out"))


def on(nodes: ThreeNodes, experiment: dict[str, Any]) -> dict[str, Any]:
    return experiment | {"engine": {"name": "ray", "address": nodes.address, "checkpoint_seconds": 0.2}}


def test_three_nodes_give_the_bits_of_one_process(
    nodes: ThreeNodes, experiment: dict[str, Any], expected: dict[str, bytes], tmp_path: Path
) -> None:
    found = records_of(lf.run(lf.Experiment.build(**on(nodes, experiment)), tmp_path / "out"))
    assert not differences(expected, found)
    assert list((nodes.folder / "cache of third" / "datasets").iterdir()), "the third was sent the dataset"
    assert not (nodes.folder / "cache of second" / "datasets").exists(), "the second has it"


def test_a_node_is_lost_in_the_middle(
    nodes: ThreeNodes, experiment: dict[str, Any], expected: dict[str, bytes], tmp_path: Path
) -> None:
    class KillTheSecond:
        """After a few runs; from another thread, for it takes a while."""

        finished = 0

        def update(self, board: Board, event: Event) -> None:
            self.finished += event.kind == "finished"
            if self.finished == 3:
                self.finished += 1
                threading.Thread(
                    target=nodes.cluster.remove_node, args=(nodes.nodes[0],), kwargs={"allow_graceful": False}
                ).start()

    values = lf.Experiment.build(**on(nodes, experiment))
    found = records_of(lf.run(values, tmp_path / "out", progress=KillTheSecond()))
    assert not differences(expected, found)
    nodes.nodes[0] = nodes.add("second")


def test_a_long_run_on_a_lost_node_goes_on_where_it_was(
    nodes: ThreeNodes, experiment: dict[str, Any], tmp_path: Path
) -> None:
    """Its states came back to the driver meanwhile: the step after the last of them is the next one."""
    (tmp_path / "slow.py").write_text(SLOW)
    steps, out = 40, tmp_path / "out"
    values = on(nodes, experiment) | {"plugins": [str(tmp_path / "slow.py")], "methods": ["slow_on_nodes"]}
    values["training"] = {
        "iterations_per_epoch": 1,
        "max_epochs": steps,
        "evaluate_every": 1,
        "patience": None,
    }
    values["search"] = {"trials": 1, "sampler": "random"}

    class LoseTwo:
        """As soon as the driver holds the state of a run on each of them; the head is left."""

        done = False

        def update(self, board: Board, event: Event) -> None:
            if not self.done and len(list(out.glob("runs/*/state.pt"))) == 2:
                self.done = True
                for node in nodes.nodes:
                    nodes.cluster.remove_node(node, allow_graceful=False)

    found = records_of(lf.run(lf.Experiment.build(**values), out, progress=LoseTwo()))
    counts = Counter((nodes.folder / "steps").read_text().split())
    runs = 4  # two folds, searched and confirmed
    assert len(counts) > runs, "some were begun again"
    assert sum(count == steps for count in counts.values()) < runs, "but not from their beginning"
    assert not differences(records_of(lf.run(lf.Experiment.build(**alone(values)), tmp_path / "a")), found)
    nodes.nodes = [nodes.add("second"), nodes.add("third")]


def alone(values: dict[str, Any]) -> dict[str, Any]:
    return values | {"engine": {"workers": 0}}


def test_the_driver_is_killed_and_started_again(
    nodes: ThreeNodes, experiment: dict[str, Any], expected: dict[str, bytes], tmp_path: Path
) -> None:
    file, out = tmp_path / "tiny.yaml", tmp_path / "out"
    file.write_text(yaml.safe_dump(on(nodes, experiment)))
    command = [sys.executable, "-m", "levelfield", "run", str(file), "--out", str(out), "--quiet"]
    driver = subprocess.Popen(command, stderr=subprocess.PIPE)
    while driver.poll() is None and len(list(out.glob("runs/*/result.json"))) < 4:
        time.sleep(0.05)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    finished = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/result.json")}
    assert finished
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "not computed again"
    assert not differences(without_ledger(expected), without_ledger(records_of(out)))


def without_ledger(records: dict[str, bytes]) -> dict[str, bytes]:
    """An interruption between opening and scoring is in the ledger, rightly."""
    return {name: content for name, content in records.items() if name != "ledger.jsonl"}


def finished(runner: engine.Runner, *tasks: Task) -> list[Finished]:
    """What came of tasks, in their order."""
    for task in tasks:
        runner.submit(task)
    found: dict[int, Finished] = {}
    while len(found) < len(tasks):
        found |= {event.number: event for event in runner.wait() if isinstance(event, Finished)}
    return [found[task.number] for task in tasks]


def test_a_task_whose_process_dies_each_time_is_lost_after_it_was_on_two_nodes(nodes: ThreeNodes) -> None:
    with engine.create(EngineSpec.model_validate({"name": "ray", "address": nodes.address})) as runner:
        error, alive = finished(runner, Task(4, os.abort, None), Task(5, ctypes.string_at, b"alive"))
        assert isinstance(error.error, TypeError), "os.abort takes no argument: an error, not a death"
        assert alive.result == b"alive"
        (lost,) = finished(runner, Task(6, ctypes.string_at, 0))
        finished(runner, Task(7, importlib.import_module, "math"))
        (without,) = finished(runner, Task(8, importlib.import_module, "a_module_that_nobody_has"))
    for each in (lost, without):
        assert isinstance(each.error, engine.LostTaskError)
        assert re.search(r"died 3 times, on .*\(\w{8}\) and ", str(each.error)), each.error
    assert "ModuleNotFoundError: No module named 'a_module_that_nobody_has'" in str(without.error)


def test_where_nothing_works_nobody_is_blamed(nodes: ThreeNodes) -> None:
    with (
        pytest.raises(RunError, match=r"worker processes die .*give the same command again"),
        engine.create(EngineSpec.model_validate({"name": "ray", "address": nodes.address})) as runner,
    ):
        finished(runner, Task(1, os._exit, 3))


def test_more_is_asked_than_any_node_has(nodes: ThreeNodes) -> None:
    spec = EngineSpec.model_validate({"name": "ray", "address": nodes.address, "cpus": 64})
    with (
        pytest.raises(
            UsageError, match="a run asks for 64 CPU, but no machine of the cluster has more than 1"
        ),
        engine.create(spec),
    ):
        pass


def test_another_version_on_a_node(nodes: ThreeNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    import levelfield.engine.ray as ray_engine

    monkeypatch.setattr(ray_engine, "versions_here", lambda: {"python": "3.99", "torch": "9.9"})
    with (
        pytest.raises(
            RunError, match=r"machine .* has python 3\.\d.*, the driver python 3\.99.*install the same"
        ),
        engine.create(EngineSpec.model_validate({"name": "ray", "address": nodes.address})) as runner,
    ):
        engine.run_all(runner, abs, [1])


def test_a_node_without_a_package_is_named(nodes: ThreeNodes) -> None:
    """What the engine itself needs there cannot be imported: Ray says that in a page."""
    nodes.add("bare", PYTHONPATH=str(_broken_torch(nodes.folder / "broken")), num_cpus=4)
    with (
        pytest.raises(RunError, match=r"machine .* cannot carry out tasks \(.*no torch here.*install there"),
        engine.create(
            EngineSpec.model_validate({"name": "ray", "address": nodes.address, "cpus": 4})
        ) as runner,
    ):
        finished(runner, Task(1, abs, -1))


def _broken_torch(folder: Path) -> Path:
    (_made(folder / "torch") / "__init__.py").write_text('raise ImportError("no torch here")\n')
    return folder


def test_another_version_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    from levelfield.engine._ray_cluster import connected

    def refuse(**_: Any) -> None:
        raise RuntimeError("Version mismatch: The cluster was started with:\n    Ray: 2.9\n    Python: 3.9")

    monkeypatch.setattr(ray, "init", refuse)
    with (
        pytest.raises(
            RunError, match=r"Ray: 2\.9 Python: 3\.9\); install the same versions of Python and Ray"
        ),
        connected(ray, "auto"),
    ):
        pass


def test_a_cluster_that_is_not_there() -> None:
    with (
        pytest.raises(RunError, match=r"cannot join the Ray cluster at 127\.0\.0\.1:1 .*ray start --head"),
        engine.create(EngineSpec.model_validate({"name": "ray", "address": "127.0.0.1:1"})),
    ):
        pass


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(UsageError, match=r"pip install 'levelfield\[ray\]'"),
        engine.create(EngineSpec(name="ray")),
    ):
        pass


def test_a_full_disk_on_the_driver_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(RunError, match=r"No space left on device; make room or choose another --out"):
        put_in_place({str(tmp_path / "x"): b"1"}, writes=[tmp_path], is_whole=True)


def test_files_come_back_with_the_mark_of_a_finished_run_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = []
    monkeypatch.setattr("levelfield.files.write_bytes", lambda path, data: order.append(path.name))
    (tmp_path / "state.pt").touch()
    contents = {str(tmp_path / name): b"" for name in ("result.json", "best.safetensors", "spec.json")}
    put_in_place(contents, writes=[tmp_path], is_whole=False)
    assert order == ["best.safetensors", "spec.json", "result.json"] and (tmp_path / "state.pt").exists()
    put_in_place(contents, writes=[tmp_path], is_whole=True)
    assert not (tmp_path / "state.pt").exists(), "the run is finished: its state is forgotten"


def test_a_parcel_holds_what_is_read_but_no_lock(tmp_path: Path) -> None:
    for name in ("state.pt", ".lock", ".result.json.1-2.tmp"):
        (tmp_path / name).write_bytes(b"x")
    parcel = pack(Task(1, be_killed, 0, reads=(tmp_path, tmp_path / "missing"), writes=(tmp_path,)))
    assert parcel.reads == {str(tmp_path / "state.pt"): b"x"}
    assert moved([tmp_path], Path("/s"), [str(tmp_path)]) == [tmp_path], "only what jobs are made of"
