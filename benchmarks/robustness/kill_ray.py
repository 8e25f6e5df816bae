"""Kill workers, nodes and the driver of an experiment on a Ray cluster; the records must not change.

    python -m benchmarks.robustness.kill_ray --kills 100 --minutes 25

The cluster has three nodes on this machine, and a head that executes nothing and is never killed. A killed
node is replaced by a new one, a killed driver is started again. The records are those of an undisturbed run
in local workers, byte by byte. After ``--minutes`` no more kills follow; the output says how many there were.
With ``--out``, the same command continues an attack that was stopped, and ``--pause`` stops it after some
minutes:

    python -m benchmarks.robustness.kill_ray --kills 100 --out build/ray --pause 4
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tests.helpers.records_snapshot import differences, records_of

from benchmarks.robustness.kill_engine import (
    LAST_KILL,
    Watch,
    command,
    experiment,
    finished_runs,
    progress_of,
    without_ledger,
)

NODES = 3
SPARED = 2  # kills of workers and nodes per driver; a run that dies three times is recorded as failed
SETTINGS = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_worker_niceness": "0",
    "OMP_NUM_THREADS": "1",
}


class Cluster:
    """Ray cluster of a head and three nodes, each with its own cache."""

    def __init__(self, directory: Path) -> None:
        from ray.cluster_utils import Cluster as RayCluster

        self._directory = directory
        self._cluster: Any = RayCluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False}
        )
        self._count = 0
        self.nodes = [self._add() for _ in range(NODES)]

    @property
    def address(self) -> str:
        """Address for the engine."""
        return str(self._cluster.address)

    def _add(self) -> Any:
        self._count += 1
        variables = SETTINGS | {"LEVELFIELD_CACHE": str(self._directory / f"cache {self._count}")}
        return self._cluster.add_node(num_cpus=1, env_vars=variables)

    def replace_node(self, chance: random.Random) -> None:
        """Kill all processes of one node, and add a new node."""
        place = chance.randrange(NODES)
        self._cluster.remove_node(self.nodes[place], allow_graceful=False)
        self.nodes[place] = self._add()

    def repair(self) -> None:
        """Replace nodes that ended by themselves: Ray gives up a node that a busy machine lets wait."""
        for place, node in enumerate(self.nodes):
            if any(each.process.poll() is not None for each in node.all_processes["raylet"]):
                self._cluster.remove_node(node, allow_graceful=False)
                self.nodes[place] = self._add()

    def busy_workers(self) -> list[int]:
        """Return the processes of our nodes that execute a task now."""
        raylets = {each.process.pid for node in self.nodes for each in node.all_processes["raylet"]}
        found = []
        for directory in Path("/proc").iterdir():
            if not directory.name.isdigit():
                continue
            try:
                title = (directory / "cmdline").read_bytes()
                parent = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):  # it has just ended
                continue
            if parent in raylets and title.startswith(b"ray::") and not title.startswith(b"ray::IDLE"):
                found.append(int(directory.name))
        return found

    def stop(self) -> None:
        """End all nodes."""
        self._cluster.shutdown()


@dataclass
class State:
    """Progress of the attack, kept in a file so that it can be continued.

    Attributes:
        waiting: Moments of the kills to come, the last one first.
        hits: Number of kills by kind.
        finished: Finished runs and the times at which they ended; none may change.
    """

    waiting: list[float]
    hits: dict[str, int] = field(default_factory=lambda: {"driver": 0, "worker": 0, "node": 0})
    finished: dict[str, int] = field(default_factory=dict)

    def count(self) -> int:
        """Return the number of kills."""
        return sum(self.hits.values())

    def save(self, file: Path) -> None:
        """Write the state."""
        file.write_text(json.dumps(asdict(self)))


def run_with_kills(
    folder: Path, cluster: Cluster, state: State, chance: random.Random, *, until: float, pause: float
) -> bool:
    """Run the experiment with a kill at each moment of its progress; return False if it was paused."""
    file, out = folder / "killed.yaml", folder / "disturbed"
    watch, waiting, hits = Watch(), state.waiting, state.hits
    watch.seen = state.finished
    while True:
        driver = subprocess.Popen(command(file, out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        left = chance.randint(0, SPARED)
        while driver.poll() is None and time.monotonic() < pause:
            if not waiting or time.monotonic() > until or progress_of(out) < waiting[-1]:
                time.sleep(0.2)
                cluster.repair()
                continue
            time.sleep(chance.uniform(0.0, 3.0))
            watch.look(out)
            cluster.repair()
            victims = cluster.busy_workers()
            if left and chance.random() < 0.3:
                cluster.replace_node(chance)
                hits["node"] += 1
                left -= 1
            elif left and victims:
                os.kill(chance.choice(victims), signal.SIGKILL)
                hits["worker"] += 1
                left -= 1
            elif not left and driver.poll() is None:
                driver.kill()
                hits["driver"] += 1
            else:
                continue  # no process to kill yet
            waiting.pop()
            state.finished = watch.seen
            state.save(folder / "state.json")
            print(hits, f"progress {progress_of(out)}", flush=True)
        if paused := driver.poll() is None:
            driver.kill()
            hits["driver"] += 1
        _, said = driver.communicate()
        watch.look(out)
        state.finished = watch.seen
        if paused:
            return False
        if driver.returncode == 0:
            return True
        if driver.returncode != -signal.SIGKILL:
            sys.exit(f"the driver ended with {driver.returncode}: {said.decode()[-800:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=25, help="no kill comes later")
    parser.add_argument("--methods", type=int, default=4)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--out", type=Path, help="directory that is kept, to continue a stopped attack")
    parser.add_argument("--pause", type=float, default=math.inf, help="minutes; needs --out")
    options = parser.parse_args()
    pause = time.monotonic() + 60 * options.pause
    print(f"seed {options.seed}", flush=True)
    os.environ.update(SETTINGS)
    own = nullcontext(str(options.out)) if options.out else None
    with own or tempfile.TemporaryDirectory(prefix="levelfield-ray-") as name:
        folder = Path(name).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        values = experiment(options.methods, options.trials)
        alone, file, kept = (folder / each for each in ("alone.yaml", "killed.yaml", "state.json"))
        alone.write_text(yaml.safe_dump(values))
        chance = random.Random(options.seed)
        if kept.exists():
            state = State(**json.loads(kept.read_text()))
            chance.seed(options.seed + state.count())
        else:
            subprocess.run(command(alone, folder / "undisturbed"), check=True, capture_output=True)
            end = progress_of(folder / "undisturbed")
            moments = [chance.uniform(0, LAST_KILL * end) for _ in range(options.kills)]
            state = State(sorted(moments, reverse=True))
            state.save(kept)
        cluster = Cluster(Path(tempfile.mkdtemp(dir=folder)))
        try:
            engine = {"name": "ray", "address": cluster.address, "checkpoint_seconds": 0.5}
            file.write_text(yaml.safe_dump(values | {"engine": engine}))
            until = time.monotonic() + 60 * options.minutes
            ended = run_with_kills(folder, cluster, state, chance, until=until, pause=pause)
        finally:
            cluster.stop()
            state.save(kept)
        if not ended:
            print(f"paused after {state.count()} kills ({state.hits}); give the same command again")
            return
        expected, found = (records_of(folder / each) for each in ("undisturbed", "disturbed"))
        different = differences(without_ledger(expected), without_ledger(found))
        runs = len(finished_runs(folder / "disturbed"))
    if different:
        sys.exit(f"{len(different)} records differ: {different[:5]}")
    print(
        f"{state.count()} kills ({state.hits}): {runs} runs, {len(expected)} records, all the same byte by "
        "byte; no finished run was lost or computed again"
    )


if __name__ == "__main__":
    main()
