"""Utilization of the engine: a replay on simulated clusters, and measurements on this machine.

    python -m benchmarks.speed.engine replay                  # recorded run times, 1 to 512 simulated workers
    python -m benchmarks.speed.engine replay --records runs/x # the run times of your own experiment
    python -m benchmarks.speed.engine replay --seconds 3600   # the same shape with runs of an hour on average
    python -m benchmarks.speed.engine utilization             # busy time / (workers x time) on this machine
    python -m benchmarks.speed.engine utilization --demo      # the same of the demo
    python -m benchmarks.speed.engine overhead                # an engine against the bare training loop
    python -m benchmarks.speed.engine tasks --engine ray      # an engine alone, on tasks that do nothing
    python -m benchmarks.speed.engine proposals               # the cost of proposing a trial

The replay runs the scheduler of ``levelfield run`` with a virtual clock and workers that are busy for the
duration of recorded runs. ``cub_run_seconds.json`` has the times of 80 runs on features of CUB-200-2011,
recorded by ``choose_laptop.py`` (2026-11-16, 2 CPU cores, no GPU, with other work on the machine).
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from levelfield.config import EngineSpec
from levelfield.engine import Engine, ProgressReport, Task, TaskResult
from levelfield.protocol import ProgressState
from levelfield.protocol.confirm._confirm import TestSetBarrier
from levelfield.protocol.schedule._flow import Flow, Job, WaitForJobs, WaitUntil
from levelfield.protocol.schedule._scheduler import Scheduler
from levelfield.records import Store
from levelfield.train import available_cores

HERE = Path(__file__).parent
METHODS, TRIALS, FOLDS, RERUNS = 14, 5, 4, 3  # the shape of cub_run_seconds.json
SCORING_SHARE = 0.2  # time to score a rerun, as a share of the time of a run


# The replay


@dataclass(frozen=True)
class Shape:
    """Size of an experiment."""

    methods: int = METHODS
    trials: int = TRIALS
    folds: int = FOLDS
    reruns: int = RERUNS
    parallel: int = 1


class VirtualCluster:
    """Workers on a virtual clock; the job of a task is its duration in seconds.

    ``driver_seconds`` is the time that the single driver needs for each task.
    """

    def __init__(self, workers: int, *, driver_seconds: float = 0.0) -> None:
        self.slots = workers
        self.now = self.busy = self._driver_free = 0.0
        self._ends: list[tuple[float, int, float]] = []
        self._driver_seconds = driver_seconds

    def submit(self, task: Task) -> None:
        self._driver_free = max(self._driver_free, self.now) + self._driver_seconds
        heapq.heappush(self._ends, (self._driver_free + task.job, task.number, task.job))
        self.busy += task.job

    def wait(self, timeout: float | None = None) -> list[TaskResult | ProgressReport]:
        self.now, number, seconds = heapq.heappop(self._ends)
        return [TaskResult(number, seconds=seconds)]


Durations = Callable[[int, str], float]  # seconds of a job, by method and name


def durations(pools: list[list[float]], *, scale: float) -> Durations:
    """Return a function that draws a recorded time for each job, the same in every replay."""

    def seconds(method: int, name: str) -> float:
        return scale * random.Random(f"{method} {name}").choice(pools[method % len(pools)])

    return seconds


def all_at_once(shape: Shape, seconds: Durations) -> list[Flow[None]]:
    """Return the flows of ``levelfield run``, without records."""
    barrier = TestSetBarrier(tuple(str(method) for method in range(shape.methods)))
    return [_method(method, shape, seconds, barrier) for method in range(shape.methods)]


def _method(method: int, shape: Shape, seconds: Durations, barrier: TestSetBarrier) -> Flow[None]:
    for start in range(0, shape.trials, shape.parallel):
        left = (shape.trials - start) / shape.parallel
        numbers = range(start, min(start + shape.parallel, shape.trials))
        names = [f"trial {number} fold {fold}" for number in numbers for fold in range(shape.folds)]
        yield WaitForJobs([_job(method, name, seconds, priority=left) for name in names])
    barrier.frozen[str(method)] = Path()
    names = [f"rerun {rerun} fold {fold}" for rerun in range(shape.reruns) for fold in range(shape.folds)]
    yield WaitForJobs([_job(method, name, seconds, priority=1.0) for name in names])
    yield WaitUntil(lambda: barrier.is_turn_of(str(method)))
    barrier.passed += 1
    yield WaitForJobs(
        [_job(method, f"score {rerun}", seconds, share=SCORING_SHARE) for rerun in range(shape.reruns)]
    )


def one_after_the_other(shape: Shape, seconds: Durations) -> list[Flow[None]]:
    """Return the former schedule: one trial and one method at a time, each waiting for its slowest run."""

    def flow() -> Flow[None]:
        confirmations = []
        for method in range(shape.methods):
            search, *confirmation = _split_requests(
                _method(method, shape, seconds, TestSetBarrier(())), shape
            )
            for request in search:
                yield request
            confirmations += confirmation
        for requests in confirmations:
            for request in requests:
                yield request

    return [flow()]


def _split_requests(flow: Flow[None], shape: Shape) -> list[list[WaitForJobs]]:
    found = [request for request in flow if isinstance(request, WaitForJobs)]
    rounds = -(-shape.trials // shape.parallel)
    return [found[:rounds], found[rounds:]]


def _job(method: int, name: str, seconds: Durations, *, priority: float = 0.0, share: float = 1.0) -> Job:
    return Job(f"{method} {name}", abs, share * seconds(method, name), "all", "search", priority=priority)


def replayed(flows: list[Flow[None]], workers: int, *, driver_seconds: float = 0.0) -> VirtualCluster:
    """Run flows on virtual workers and return the cluster."""
    cluster = VirtualCluster(workers, driver_seconds=driver_seconds)
    progress_state = ProgressState()
    progress_state.add_row("all", 0)
    Scheduler(cluster, progress_state, clock=lambda: cluster.now).run(flows)
    return cluster


def critical_path(shape: Shape, seconds: Durations) -> float:
    """Return the time with unlimited workers: the slowest chain of trials, reruns and scores."""
    return replayed(all_at_once(shape, seconds), 1_000_000).now


def recorded_pools(directory: Path | None) -> list[list[float]]:
    """Return the seconds of finished runs, one list per loss."""
    if directory is None:
        found = json.loads((HERE / "cub_run_seconds.json").read_text())
        return list(found.values())
    pools = defaultdict(list)
    for run in Store(directory).runs():
        provenance = run.provenance()
        if provenance is not None:
            pools[run.spec().recipe.loss].append(provenance.seconds)
    if not pools:
        sys.exit(f"{directory} has no finished runs; give an experiment directory")
    return list(pools.values())


def replay(options: argparse.Namespace) -> None:
    """Print time, speed-up and utilization of both schedules."""
    pools = recorded_pools(options.records)
    scale = options.seconds / fmean(time for pool in pools for time in pool) if options.seconds else 1.0
    seconds = durations(pools, scale=scale)
    shape = Shape(trials=options.trials)
    print(
        f"{shape.methods} methods x {shape.trials} trials x {shape.folds} folds, {shape.reruns} reruns; "
        f"runs of {scale * fmean(t for p in pools for t in p):.1f} s on average; the driver needs "
        f"{1000 * options.driver_seconds:.0f} ms a job"
    )
    alone = replayed(all_at_once(shape, seconds), 1).now
    path = critical_path(shape, seconds)
    print(
        f"one worker: {alone:.0f} s; no number of workers is faster than {path:.0f} s (the longest chain)\n"
    )
    print("workers | before: busy | now: busy | time (s) | speed-up | limited by")
    for workers in (1, 2, 4, 8, 16, 32, 64, 128, 512):
        old = replayed(one_after_the_other(shape, seconds), workers)
        new = replayed(all_at_once(shape, seconds), workers, driver_seconds=options.driver_seconds)
        limit = "workers" if alone / workers > path else "the sequence of trials"
        print(
            f"{workers:7d} | {old.busy / old.now / workers:12.0%} | {new.busy / new.now / workers:9.0%} | "
            f"{new.now:8.0f} | {alone / new.now:8.1f} | {limit}"
        )
    print("\nsearch.parallel: trials of a method at once; each knows fewer earlier trials")
    print("parallel | earlier trials known, on average      | time (s) on 64 workers | on 512")
    for parallel in (1, 2, 5, 10, 25):
        if parallel > shape.trials:
            continue
        wide = Shape(trials=shape.trials, parallel=parallel)
        knows = fmean(number - number % parallel for number in range(shape.trials))
        times = [replayed(all_at_once(wide, seconds), workers).now for workers in (64, 512)]
        print(f"{parallel:8d} | {knows:37.1f} | {times[0]:22.0f} | {times[1]:6.0f}")


# Measurements on this machine


class Watch:
    """Adds up the busy time of workers, from the first job to the last."""

    def __init__(self) -> None:
        self.busy, self.first, self.last, self.jobs = 0.0, 0.0, 0.0, 0

    @contextmanager
    def around(self, runner: Engine) -> Iterator[Engine]:
        watch = self

        class Watched:
            @property
            def slots(self) -> int:
                return runner.slots

            def submit(self, task: Task) -> None:
                watch.first = watch.first or time.monotonic()
                runner.submit(task)

            def wait(self, timeout: float | None = None) -> list[TaskResult | ProgressReport]:
                events = runner.wait(timeout)
                for event in events:
                    if isinstance(event, TaskResult):
                        watch.busy += event.seconds
                        watch.last = time.monotonic()
                        watch.jobs += 1
                return events

        yield Watched()


def _experiment(
    methods: list[str], *, trials: int, workers: int, steps: int, sampler: str
) -> dict[str, object]:
    return {
        "name": "engine",
        "preset": "demo",
        "methods": methods,
        "trunk": {"mode": "frozen"},
        "search": {"trials": trials, "sampler": sampler},
        "confirm": {"reruns": 1},
        "training": {"iterations_per_epoch": steps, "max_epochs": 8, "evaluate_every": 2, "patience": None},
        "engine": {"name": "watched", "workers": workers},
    }


ALL_METHODS = [
    *("contrastive", "triplet", "ntxent", "proxy_nca", "margin", "normalized_softmax", "cosface"),
    *("arcface", "fastap", "snr_contrastive", "multi_similarity", "multi_similarity_miner", "soft_triple"),
    "margin_class",
]


def utilization(options: argparse.Namespace) -> None:
    """Run 14 methods x 5 trials x 4 folds on frozen features, or the demo, with real workers."""
    import levelfield as lf
    from levelfield import engine

    watch = Watch()

    @engine.register("watched")
    @contextmanager
    def watched(*, workers: int = 2, threads: int = 1) -> Iterator[Engine]:
        """Run the local engine and record its busy time."""
        with engine.LocalEngine(workers=workers).open() as runner, watch.around(runner) as seen:
            engine.run_tasks(runner, _warm_up, [1.0] * workers)  # import torch before the measurement
            yield seen

    values = _experiment(
        ALL_METHODS, trials=options.trials, workers=options.workers, steps=options.steps, sampler="gp"
    )
    values["metrics"] = ["map_at_r"]
    if options.demo:
        values = {"name": "demo", "preset": "demo", "engine": values["engine"]}
    with tempfile.TemporaryDirectory() as directory:
        lf.run(values, Path(directory) / "out")
    wall = watch.last - watch.first
    print(
        f"{watch.jobs} jobs, {watch.busy / watch.jobs:.2f} s on average, {options.workers} workers: busy "
        f"{watch.busy / options.workers / wall:.1%} of {wall:.0f} s"
    )


def _warm_up(seconds: float) -> None:
    import torch

    torch.zeros(1)
    time.sleep(seconds)


def overhead(options: argparse.Namespace) -> None:
    """Time runs on an engine and the same runs in a loop, with data and network already loaded."""
    import levelfield as lf
    from levelfield import engine
    from levelfield.protocol import resolve_experiment
    from levelfield.train import RunJob, run_job

    values = _experiment(["triplet"], trials=1, workers=0, steps=5, sampler="random")
    values["engine"] = {"workers": 0}
    resolved = resolve_experiment(lf.Experiment.build(**values))
    method = resolved.methods[0]

    def jobs(folder: Path, first: int) -> list[RunJob]:
        specs = [
            resolved.run_spec(method, {"margin": 0.1}, fold=0, seed=first + n) for n in range(options.runs)
        ]
        return [RunJob(spec, resolved.resources, folder / spec.run_id) for spec in specs]

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bare, through = [], []
        with engine.create(_one_worker(options.engine)) as runner:
            for job in jobs(folder / "warm", 10_000)[:2]:
                run_job(job)
            engine.run_tasks(runner, run_job, jobs(folder / "warm there", 20_000)[:2])
            for turn in range(options.turns):  # in turns, so other work on the machine affects both alike
                started = time.perf_counter()
                for job in jobs(folder / f"bare {turn}", turn * 1000):
                    run_job(job)
                bare.append((time.perf_counter() - started) / options.runs)
                started = time.perf_counter()
                engine.run_tasks(runner, run_job, jobs(folder / f"through {turn}", turn * 1000))
                through.append((time.perf_counter() - started) / options.runs)
    extra = median(b - a for a, b in zip(bare, through, strict=True))
    print(
        f"{options.engine}: {1000 * median(bare):.0f} ms a run in a loop, {1000 * median(through):.0f} ms on "
        f"one worker: {1000 * extra:+.0f} ms, {median(through) / median(bare):.2f} times"
    )


def tasks(options: argparse.Namespace) -> None:
    """Time empty tasks: the overhead of the engine. Other work on the machine adds to it."""
    from levelfield import engine

    with engine.create(_one_worker(options.engine)) as runner:
        engine.run_tasks(runner, abs, range(4))
        for _ in range(options.turns):
            started, busy = time.perf_counter(), time.process_time()
            engine.run_tasks(runner, abs, range(options.tasks))
            each = 1000 * (time.perf_counter() - started) / options.tasks
            driver = 1000 * (time.process_time() - busy) / options.tasks
            print(
                f"{options.engine}: {each:.1f} ms a task, {driver:.2f} ms of it the driver's processor time"
            )


def _one_worker(name: str) -> EngineSpec:
    one = {"address": "local", "cpus": available_cores()} if name == "ray" else {"workers": 1}
    return EngineSpec.model_validate({"name": name, **one})


def proposals(options: argparse.Namespace) -> None:
    """Print the processor seconds of one proposal, by sampler and number of earlier trials."""
    from levelfield.core.space import Float
    from levelfield.protocol.search._optimizer import Observation, suggest

    space = {"lr": Float(1e-6, 1.0, log=True), "margin": Float(0.0, 1.0), "scale": Float(1.0, 100.0)}
    chance = random.Random(0)

    def seen(count: int) -> list[Observation]:
        points = [
            {"lr": 10 ** chance.uniform(-6, 0), "margin": chance.random(), "scale": chance.uniform(1, 100)}
            for _ in range(count)
        ]
        return [Observation(point, chance.random()) for point in points]

    for sampler in ("gp", "tpe", "random"):
        suggest(space, seen(8), sampler=sampler, seed=0, number=8)
        for count in (50, 200, 1000):
            times = []
            for turn in range(1 if count == 1000 else 5):
                before = seen(count)
                started = time.process_time()
                suggest(space, before, sampler=sampler, seed=turn, number=count)
                times.append(time.process_time() - started)
            print(f"{sampler:7s} after {count:5d} trials: {median(times):7.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("replay")
    part.add_argument("--records", type=Path, help="experiment directory whose run times are replayed")
    part.add_argument("--seconds", type=float, help="scale the recorded times to this mean")
    part.add_argument("--trials", type=int, default=TRIALS)
    part.add_argument("--driver-seconds", type=float, default=0.005, help="time of the driver per job")
    part.set_defaults(run=replay)
    part = parts.add_parser("utilization")
    part.add_argument("--workers", type=int, default=2)
    part.add_argument("--trials", type=int, default=TRIALS)
    part.add_argument("--steps", type=int, default=60)
    part.add_argument("--demo", action="store_true", help="the demo instead of 14 methods")
    part.set_defaults(run=utilization)
    part = parts.add_parser("overhead")
    part.add_argument("--engine", default="local")
    part.add_argument("--runs", type=int, default=10)
    part.add_argument("--turns", type=int, default=5)
    part.set_defaults(run=overhead)
    part = parts.add_parser("tasks")
    part.add_argument("--engine", default="local")
    part.add_argument("--tasks", type=int, default=200)
    part.add_argument("--turns", type=int, default=3)
    part.set_defaults(run=tasks)
    part = parts.add_parser("proposals")
    part.set_defaults(run=proposals)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
