"""A real Ray cluster of three nodes on this machine gives the same bits as one process.

The head executes nothing. Each node has its own cache. The third has another dataset under the same name.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import os
import re
import signal
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
from tests.helpers.odd_jobs import be_killed
from tests.helpers.records_snapshot import differences, records_of
from tests.helpers.warm import start_levelfield

import levelfield as lf
from levelfield import engine
from levelfield.config import EngineSpec
from levelfield.core.errors import RunError, UsageError
from levelfield.engine import Task, TaskResult
from levelfield.engine._remote_task import pack_task, rebase_paths, write_returned_files
from levelfield.protocol import ProgressEvent, ProgressState

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.ray

DRIVER_ONLY = """
import os
import levelfield as lf
from levelfield.losses.contrastive import Contrastive
from helper_of_driver_only import MARGIN

assert not ("LEVELFIELD_TEST_NODE" in os.environ and "driver_only_directory" in __file__), "not on a node"

@lf.losses.register("driver_only", space={"neg_margin": lf.Float(0.1, MARGIN)})
class DriverOnly(Contrastive):
    "A loss in a file that only the driver has."
"""

HELD = """
import os, pathlib, time, uuid
import levelfield as lf
from levelfield.losses.contrastive import Contrastive

@lf.losses.register("held_on_nodes", space={"neg_margin": lf.Float(0.1, 1.0)})
class HeldOnNodes(Contrastive):
    "Writes each of its steps to a file on the cluster; from the third on, waits until a node was lost."
    def __init__(self, **options):
        super().__init__(**options)
        self.me = uuid.uuid4().hex
        self.steps = 0

    def forward(self, embeddings, labels, *rest):
        if "LEVELFIELD_TEST_NODE" in os.environ:
            self.steps += 1
            steps = pathlib.Path(os.environ["LEVELFIELD_TEST_STEPS"])
            with steps.open("a") as file:
                file.write(f"{self.me} {os.environ['LEVELFIELD_TEST_NODE']} {os.getpid()}\\n")
            while self.steps > 2 and not steps.with_name("node was lost").exists():
                time.sleep(0.05)
        return super().forward(embeddings, labels, *rest)
"""


class ThreeNodes:
    """Ray's cluster utility with its own directory and nodes that can be killed and replaced."""

    def __init__(self, directory: Path) -> None:
        from ray.cluster_utils import Cluster

        self.directory = directory
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 0,
                "include_dashboard": False,
                "env_vars": self._environment("head"),
            },
        )
        Image.new("RGB", (16, 16)).save(_make_directory(directory / "another" / "class 00") / "0.png")
        self.nodes = [
            self.add("second"),
            self.add("third", LEVELFIELD_ROOT_FOLDER=str(directory / "another")),
        ]
        self.address = self.cluster.address

    def add(self, name: str, *, num_cpus: int = 1, **variables: str) -> Any:
        return self.cluster.add_node(num_cpus=num_cpus, env_vars=self._environment(name) | variables)

    def _environment(self, name: str) -> dict[str, str]:
        return {
            "LEVELFIELD_TEST_NODE": name,
            "LEVELFIELD_TEST_STEPS": str(self.directory / "steps"),
            "LEVELFIELD_CACHE": str(self.directory / f"cache of {name}"),
            "OMP_NUM_THREADS": "1",
        }


def _make_directory(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreeNodes]:
    """Without tokens in the home directory, and with short names of sockets."""
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
    """On image files, with a plug-in and its helper in a directory of the driver."""
    from tests.conftest import tiny_values

    folder = tmp_path_factory.mktemp("driver_only_directory")
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
    values["plugins"] = [str(folder / "driver_only.py")]
    values["dataset"] = {"name": "folder", "root": str(folder / "images")}
    values["trunk"] = {"name": "conv4", "width": 4}
    values["training"] = {"iterations_per_epoch": 2, "max_epochs": 2, "evaluate_every": 1, "patience": None}
    values["methods"] = ["driver_only", "triplet"]
    values["search"] = {"trials": 2, "sampler": "random"}
    values["confirm"] = {"reruns": 1}
    return values


def on(nodes: ThreeNodes, experiment: dict[str, Any]) -> dict[str, Any]:
    return experiment | {"engine": {"name": "ray", "address": nodes.address, "checkpoint_seconds": 0.2}}


def test_three_nodes_a_killed_driver_and_a_lost_node_give_the_bits_of_one_process(
    nodes: ThreeNodes, experiment: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is killed and started again; then the second node is lost."""
    file, out = tmp_path / "tiny.yaml", tmp_path / "out"
    values = on(nodes, experiment)
    file.write_text(yaml.safe_dump(values))
    driver = start_levelfield(["run", str(file), "--out", str(out), "--quiet"])
    while len(list(out.glob("runs/*/result.json"))) < 3:
        assert driver.poll() is None, "ended before three runs"
        time.sleep(0.05)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    assert list((nodes.directory / "cache of third" / "datasets").iterdir()), "the third was sent the dataset"
    assert not (nodes.directory / "cache of second" / "datasets").exists(), "the second has it"
    finished = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/result.json")}

    class KillTheSecond:
        """Kill after a run; in another thread, because it takes a while."""

        killer: threading.Thread | None = None

        def update(self, progress_state: ProgressState, event: ProgressEvent) -> None:
            if event.kind == "finished" and self.killer is None:
                self.killer = threading.Thread(
                    target=nodes.cluster.remove_node, args=(nodes.nodes[0],), kwargs={"allow_graceful": False}
                )
                self.killer.start()

    monkeypatch.setattr("levelfield.engine.ray.POLL_SECONDS", 0.2)
    kill = KillTheSecond()
    lf.run(values, out, progress=kill)
    assert kill.killer is not None, "a run was left for the second driver"
    kill.killer.join()
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "not computed again"
    expected = records_of(lf.run(alone(experiment), tmp_path / "alone").path)
    assert not differences(without_ledger(expected), without_ledger(records_of(out)))
    nodes.nodes[0] = nodes.add("second")


def alone(values: dict[str, Any]) -> dict[str, Any]:
    return values | {"engine": {"workers": 0}}


def without_ledger(records: dict[str, bytes]) -> dict[str, bytes]:
    """Leave out the ledger: an interruption between opening and scoring adds a line."""
    return {name: content for name, content in records.items() if name != "ledger.jsonl"}


def results_of(runner: engine.Engine, *tasks: Task) -> list[TaskResult]:
    """Return the results of tasks, in their order."""
    for task in tasks:
        runner.submit(task)
    found: dict[int, TaskResult] = {}
    while len(found) < len(tasks):
        found |= {event.number: event for event in runner.wait() if isinstance(event, TaskResult)}
    return [found[task.number] for task in tasks]


def test_a_task_whose_process_dies_each_time_is_lost_after_it_was_on_two_nodes(nodes: ThreeNodes) -> None:
    with engine.create(EngineSpec.model_validate({"name": "ray", "address": nodes.address})) as runner:
        error, alive = results_of(
            runner,
            Task(4, os.abort, None),  # type: ignore[arg-type]  # it takes no argument
            Task(5, ctypes.string_at, b"alive"),
        )
        assert isinstance(error.error, TypeError), "os.abort takes no argument: an error, not a death"
        assert alive.result == b"alive"
        (lost,) = results_of(runner, Task(6, ctypes.string_at, 0))
        results_of(runner, Task(7, importlib.import_module, "math"))
        (without,) = results_of(runner, Task(8, importlib.import_module, "a_missing_module"))
    for each in (lost, without):
        assert isinstance(each.error, engine.LostTaskError)
        assert re.search(r"died 3 times, on .*\(\w{8}\) and ", str(each.error)), each.error
    assert "ModuleNotFoundError: No module named 'a_missing_module'" in str(without.error)


def test_if_every_worker_dies_no_task_is_lost(nodes: ThreeNodes) -> None:
    with (
        pytest.raises(RunError, match=r"worker processes die .*give the same command again"),
        engine.create(EngineSpec.model_validate({"name": "ray", "address": nodes.address})) as runner,
    ):
        results_of(runner, Task(1, os._exit, 3))


def test_more_is_asked_than_any_node_has(nodes: ThreeNodes) -> None:
    spec = EngineSpec.model_validate({"name": "ray", "address": nodes.address, "cpus": 64})
    with (
        pytest.raises(
            UsageError, match="a run asks for 64 CPU, but no machine of the cluster has more than 1"
        ),
        engine.create(spec),
    ):
        pass


@pytest.mark.parametrize("looks", [3, 10**9])
def test_a_cluster_whose_machines_are_being_replaced_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    import levelfield.engine.ray as ray_engine

    class Ray:
        asked = 0

        def nodes(self) -> list[dict[str, Any]]:
            self.asked += 1
            head = {"Alive": True, "Resources": {"memory": 1.0}}
            return [head, {"Alive": True, "Resources": {"CPU": 1.0}}] if self.asked > looks else [head]

    monkeypatch.setattr(ray_engine, "NODES_SECONDS", 0.2)
    monkeypatch.setattr(ray_engine, "PAUSE", 0.001)
    runner: Any = ray_engine.RayEngine.__new__(ray_engine.RayEngine)
    runner._ray, runner._nodes_read = Ray(), -math.inf
    runner._request = ray_engine._ResourceRequest(cpus=1.0, gpus=0.0, others={})
    if looks > 3:
        with pytest.raises(RunError, match=r"no machine of the cluster has been there .*start machines"):
            runner._count_places(first=True)
    else:
        runner._count_places(first=True)
        assert runner._places == 1


def test_another_version_on_a_node(nodes: ThreeNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    import levelfield.engine.ray as ray_engine

    monkeypatch.setattr(ray_engine, "package_versions", lambda: {"python": "3.99", "torch": "9.9"})
    with (
        pytest.raises(
            RunError, match=r"machine .* has python 3\.\d.*, the driver python 3\.99.*install the same"
        ),
        engine.create(EngineSpec.model_validate({"name": "ray", "address": nodes.address})) as runner,
    ):
        engine.run_tasks(runner, abs, [1])


def test_a_node_without_a_package_is_named(nodes: ThreeNodes) -> None:
    """A package that the engine needs cannot be imported there; Ray's own message is a page long."""
    bare = nodes.add("bare", PYTHONPATH=str(_broken_torch(nodes.directory / "broken")), num_cpus=4)
    try:
        with (
            pytest.raises(
                RunError, match=r"machine .* cannot execute tasks \(.*no torch here.*install the same"
            ),
            engine.create(
                EngineSpec.model_validate({"name": "ray", "address": nodes.address, "cpus": 4})
            ) as runner,
        ):
            results_of(runner, Task(1, abs, -1))
    finally:
        nodes.cluster.remove_node(bare, allow_graceful=False)


def _broken_torch(directory: Path) -> Path:
    (_make_directory(directory / "torch") / "__init__.py").write_text('raise ImportError("no torch here")\n')
    return directory


def test_a_run_on_a_lost_node_goes_on_where_it_was(
    nodes: ThreeNodes, experiment: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver has its states; the run continues after the last one.

    Both runs of the search wait in their third step until the node of one of them is lost.
    """
    monkeypatch.setattr("levelfield.engine.ray.POLL_SECONDS", 0.2)
    (tmp_path / "held.py").write_text(HELD)
    steps, out = 6, tmp_path / "out"
    values = on(nodes, experiment) | {"plugins": [str(tmp_path / "held.py")], "methods": ["held_on_nodes"]}
    values["training"] = {
        "iterations_per_epoch": 1,
        "max_epochs": steps,
        "evaluate_every": 1,
        "patience": None,
    }
    values["search"] = {"trials": 1, "sampler": "random"}
    for name in ("steps", "node was lost"):  # of an earlier attempt
        (nodes.directory / name).unlink(missing_ok=True)
    ended = threading.Event()

    def lines() -> list[list[str]]:
        return [line.split() for line in (nodes.directory / "steps").read_text().splitlines()]

    def lose_the_second() -> None:
        """Remove a node as soon as the driver has a state of both runs, then let the other run go on."""
        while len(list(out.glob("runs/*/state.pt"))) < 2:
            if ended.wait(0.05):
                return
        nodes.cluster.remove_node(nodes.nodes[0], allow_graceful=False)
        while any(_is_alive(int(pid)) for _, node, pid in lines() if node == "second"):
            ended.wait(0.05)  # a worker notices that its node is gone
        (nodes.directory / "node was lost").touch()

    thief = threading.Thread(target=lose_the_second)
    thief.start()
    try:
        found = records_of(lf.run(values, out).path)
    finally:
        ended.set()
        thief.join()
    counts = Counter(attempt for attempt, *_ in lines())
    assert len(counts) > 4, "four runs; one was begun again"
    assert sum(count == steps for count in counts.values()) == 3, f"but not from its beginning: {lines()}"
    undisturbed = lf.run(alone(values), tmp_path / "a").path
    assert not differences(records_of(undisturbed), found)


def _is_alive(pid: int) -> bool:
    """Return True for a process that runs, False for one that ended or is a zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


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
        write_returned_files({str(tmp_path / "x"): b"1"}, writes=[tmp_path], is_complete=True)


def test_the_result_file_is_written_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = []
    monkeypatch.setattr("levelfield.core.files.write_bytes", lambda path, data: order.append(path.name))
    (tmp_path / "state.pt").touch()
    contents = {str(tmp_path / name): b"" for name in ("result.json", "best.safetensors", "spec.json")}
    write_returned_files(contents, writes=[tmp_path], result_file="result.json", is_complete=False)
    assert order == ["best.safetensors", "spec.json", "result.json"] and (tmp_path / "state.pt").exists()
    write_returned_files(contents, writes=[tmp_path], result_file="result.json", is_complete=True)
    assert not (tmp_path / "state.pt").exists(), "the run is finished: its state is deleted"


def test_a_remote_task_holds_the_files_it_reads_but_no_lock(tmp_path: Path) -> None:
    for name in ("state.pt", ".lock", ".result.json.1-2.tmp"):
        (tmp_path / name).write_bytes(b"x")
    remote = pack_task(Task(1, be_killed, 0, reads=(tmp_path, tmp_path / "missing"), writes=(tmp_path,)))
    assert remote.reads == {str(tmp_path / "state.pt"): b"x"}
    assert rebase_paths([tmp_path], Path("/s"), [str(tmp_path)]) == [tmp_path], "jobs hold no lists"
