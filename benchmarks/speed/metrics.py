"""Metrics against a bare matrix product and against peers: time, memory, ratios.

    python -m benchmarks.speed.metrics                      # everything; about half an hour on 2 cores
    python -m benchmarks.speed.metrics --work cub128        # one task
    python -m benchmarks.speed.metrics --work growth --plot docs/images/metrics-growth.png

Every contender runs in its own process on the same embeddings, one after the other. The best of
``--rounds`` counts. On a busy machine, compare CPU seconds. Memory is the growth of the resident set from
after the embeddings exist to its peak. Peers are pytorch-metric-learning (at its best setting,
k="max_bin_count") and open-metric-learning, if installed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORK = {  # rows, dimensions, classes
    "cub128": (5_924, 128, 100),
    "cub512": (5_924, 512, 100),
    "sop": (60_502, 512, 11_316),
    "small": (2_000, 64, 400),
}
GROWTH = (5_000, 10_000, 20_000, 40_000, 80_000)
CONTENDERS = ("matmul", "levelfield", "pml", "oml")
METRICS = ("precision_at_1", "r_precision", "map_at_r")


def embeddings(rows, dimensions, classes):
    """Return shuffled unit vectors of noisy classes of near-equal size, and labels."""
    import torch

    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(rows)[torch.randperm(rows, generator=generator)] % classes
    centers = torch.randn(classes, dimensions, generator=generator)
    made = torch.empty(rows, dimensions)
    for start in range(0, rows, 8192):
        part = slice(start, start + 8192)
        noise = torch.randn(len(labels[part]), dimensions, generator=generator)
        made[part] = torch.nn.functional.normalize(centers[labels[part]] + 2.0 * noise)
    return made, labels


def matmul(made, labels):
    """Compute only the blocked float32 product that any exact search needs."""
    import torch

    out = torch.empty(min(1024, len(made)), len(made))
    for start in range(0, len(made), 1024):
        block = made[start : start + 1024]
        torch.mm(block, made.T, out=out[: len(block)])
    return {}


def levelfield(made, labels):
    from levelfield.metrics import evaluate

    return dict(evaluate(made, labels, metrics=METRICS))


def pml(made, labels):
    import torch
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    names = {"mean_average_precision_at_r": "map_at_r"}
    calculator = AccuracyCalculator(
        include=("precision_at_1", "r_precision", "mean_average_precision_at_r"),
        k="max_bin_count",
        device=torch.device("cpu"),
    )
    return {names.get(name, name): value for name, value in calculator.get_accuracy(made, labels).items()}


def oml(made, labels):
    """Run open-metric-learning: CMC@1, and precision and mAP at the largest R; it has no MAP@R."""
    import torch
    from oml.functional.knn import batched_knn_qg
    from oml.functional.metrics import calc_retrieval_metrics

    ids = torch.arange(len(made))
    depth = int(torch.bincount(labels).max()) - 1
    _, retrieved, truth = batched_knn_qg(made, made, depth, labels, labels, ids, ids)
    found = calc_retrieval_metrics(
        retrieved, truth, cmc_top_k=(1,), precision_top_k=(depth,), map_top_k=(depth,), verbose=False
    )
    return {"precision_at_1": float(found["cmc"][1])}


def mapped(folder):
    """Search a gallery of a million rows on disk with 10,000 queries; recall and mAP at 100."""
    import numpy as np

    from levelfield.metrics import evaluate

    gallery = np.load(folder / "gallery.npy", mmap_mode="r")
    labels = np.arange(len(gallery)) % 200_000
    queries = np.array(gallery[:10_000]) + 0.1 * np.random.default_rng(1).normal(size=(10_000, 128))
    measured = Measured()
    options = {"gallery": gallery, "gallery_labels": labels, "metrics": ("recall_at_100", "map_at_100")}
    return measured.done(dict(evaluate(queries.astype(np.float32), labels[:10_000], **options)))


class Measured:
    """Seconds and growth of the resident set since the start."""

    def __init__(self):
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
        self.memory = self.status("VmRSS")
        self.start = time.perf_counter()
        self.cpu = time.process_time()

    @staticmethod
    def status(field):
        line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field))
        return int(line.split()[1]) / 1024

    def done(self, scores):
        return {
            "seconds": time.perf_counter() - self.start,
            "cpu": time.process_time() - self.cpu,
            "megabytes": self.status("VmHWM") - self.memory,
            "scores": scores,
        }


def child(contender, shape, rounds):
    """Run one contender in this process; a small first call loads libraries and does not count."""
    if contender == "mapped":
        return mapped(Path(shape))
    rows, dimensions, classes = map(int, shape.split(","))
    function = globals()[contender]
    function(*embeddings(512, dimensions, 64))
    made, labels = embeddings(rows, dimensions, classes)
    results = []
    for _ in range(rounds):
        measured = Measured()
        results.append(measured.done(function(made, labels)))
    return {
        "seconds": min(result["seconds"] for result in results),
        "cpu": min(result["cpu"] for result in results),
        "megabytes": max(result["megabytes"] for result in results),
        "scores": results[0]["scores"],
    }


def spawn(contender, shape, arguments):
    command = [sys.executable, __file__, "--child", contender, shape, "--rounds", str(arguments.rounds)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"killed by signal {-done.returncode}"])[-1]
        print(f"{contender}: {reason}", flush=True)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def compare(name, shape, arguments):
    """Print a table: time, memory and the ratio to levelfield of every contender."""
    print(f"\n{name}: {shape[0]:,} x {shape[1]}, {shape[2]:,} classes; P@1 + R-precision + MAP@R\n")
    wanted = [c for c in CONTENDERS if c in arguments.contenders]
    found = {c: spawn(c, ",".join(map(str, shape)), arguments) for c in wanted}
    print(
        "| contender | seconds | times levelfield | CPU seconds | times levelfield | MB grown | MAP@R |\n"
        + "|---" * 7
        + "|",
        flush=True,
    )
    ours = found.get("levelfield")
    for contender, result in found.items():
        if result:
            cells = [contender]
            for clock in ("seconds", "cpu"):
                cells += [f"{result[clock]:.2f}", f"{result[clock] / ours[clock]:.2f}" if ours else ""]
            score = result["scores"].get("map_at_r")
            cells += [f"{result['megabytes']:.0f}", "" if score is None else f"{score:.6f}"]
            print("| " + " | ".join(cells) + " |", flush=True)


def compare_mapped(arguments):
    import numpy as np

    print("\nmapped: 1,000,000 x 128 on disk, 10,000 queries; recall_at_100 + map_at_100\n")
    with tempfile.TemporaryDirectory() as folder:
        file = np.lib.format.open_memmap(
            Path(folder) / "gallery.npy", mode="w+", dtype=np.float32, shape=(1_000_000, 128)
        )
        random = np.random.default_rng(0)
        for start in range(0, 1_000_000, 50_000):
            file[start : start + 50_000] = random.normal(size=(50_000, 128))
        file.flush()
        del file
        result = spawn("mapped", folder, arguments)
    if result:
        print(
            f"{result['seconds']:.1f} s, {result['megabytes']:.0f} MB grown, {result['scores']}", flush=True
        )


def growth(arguments):
    """Print time and memory for growing N; classes of about 5 samples, 128 dimensions."""
    print(
        "\ngrowth: N x 128, N / 5 classes\n\n| N | seconds | CPU seconds | MB grown |\n|---|---|---|---|",
        flush=True,
    )
    results = {}
    for rows in GROWTH:
        result = spawn("levelfield", f"{rows},128,{rows // 5}", arguments)
        if result:
            results[rows] = result
            cells = (
                f"{rows:,}",
                f"{result['seconds']:.2f}",
                f"{result['cpu']:.2f}",
                f"{result['megabytes']:.0f}",
            )
            print("| " + " | ".join(cells) + " |", flush=True)
    if arguments.plot and results:
        draw(results, arguments.plot, arguments)


def draw(results, path, arguments):
    from matplotlib.figure import Figure

    rows = list(results)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    time_axes, memory_axes = figure.subplots(1, 2)
    time_axes.loglog(rows, [results[n]["cpu"] for n in rows], marker="o", label="measured")
    last = results[rows[-1]]["cpu"]
    time_axes.loglog(rows, [last * (n / rows[-1]) ** 2 for n in rows], ":", color="gray", label="quadratic")
    time_axes.set(ylabel="CPU seconds", title="P@1 + R-precision + MAP@R, N x 128")
    time_axes.legend(frameon=False)
    memory_axes.semilogx(rows, [results[n]["megabytes"] for n in rows], marker="o")
    memory_axes.set(ylabel="MB grown", ylim=(0, 1024), title="peak memory above the embeddings")
    for axes in (time_axes, memory_axes):
        axes.set_xlabel("N")
        axes.set_xticks(rows, [f"{n // 1000}k" for n in rows])
        axes.minorticks_off()
    figure.supxlabel(f"python -m benchmarks.speed.metrics --work growth; {machine(arguments)}", fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def machine(arguments):
    today = datetime.date.today().isoformat()
    return f"{today}, {platform.machine()}, {os.cpu_count()} cores, {arguments.threads} threads"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    everything = ("cub128", "cub512", "sop", "mapped", "growth")
    parser.add_argument("--work", nargs="+", default=everything, choices=(*everything, "small"))
    parser.add_argument("--contenders", nargs="+", default=CONTENDERS, choices=CONTENDERS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(*arguments.child, arguments.rounds)))
        return
    print(f"{' '.join(['python', *sys.argv])}\n{machine(arguments)}, best of {arguments.rounds}")
    for name in arguments.work:
        match name:
            case "mapped":
                compare_mapped(arguments)
            case "growth":
                growth(arguments)
            case _:
                compare(name, WORK[name], arguments)


if __name__ == "__main__":
    main()
