"""Losses side by side with pytorch-metric-learning: forward + backward, 4 samples per class, D = 128.

    python -m benchmarks.speed.losses                    # ratios at 32, 128 and 512, checked against the bars
    python -m benchmarks.speed.losses --large            # time and peak memory at 4,096, a process for each
    python -m benchmarks.speed.losses --plot FILE.png    # cost against batch size, 32 to 4,096
    python -m benchmarks.speed.losses --cpu-time         # processor time, for a busy machine

Both are timed in turn, in one process, on the same batch. A figure is the best of several runs, which
other work on the machine affected least.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import levelfield as lf
from levelfield.losses import regularizers, synthesis

SIZE = 128
PER_CLASS = 4
LARGE = 4096
LIMIT_GB = 2.0


@dataclass(frozen=True)
class Row:
    """Row of the table: our loss, the peer's, and the required speed-up at batch size 512."""

    name: str
    peer: str | None = None
    bar: float = 1.5
    options: dict[str, Any] = field(default_factory=dict)
    peer_options: dict[str, Any] = field(default_factory=dict)
    miner: str | None = None
    peer_miner: str | None = None
    peer_miner_options: dict[str, Any] = field(default_factory=dict)
    classes: bool = False
    note: str = ""

    @property
    def title(self) -> str:
        return f"{self.name} + {self.miner}" if self.miner else f"{self.name} {self.note}".strip()

    def ours(self, labels: Tensor) -> Callable[[Tensor], Tensor]:
        entry = lf.losses.registry[self.name]
        shape = {"num_classes": int(labels.max()) + 1, "embedding_size": SIZE} if self.classes else {}
        loss = entry.target(**self.options, **shape)
        if self.miner is None:
            return partial(_call, loss, labels)
        generator = torch.Generator().manual_seed(0)
        takes = lf.miners.registry[self.miner].parameters
        miner = lf.miners.create(self.miner, **({"generator": generator} if "generator" in takes else {}))
        return lambda x: loss(x, labels, miner(x, labels))

    def theirs(self, labels: Tensor) -> Callable[[Tensor], Tensor]:
        from pytorch_metric_learning import losses, miners

        shape = {"num_classes": int(labels.max()) + 1, "embedding_size": SIZE} if self.classes else {}
        loss = getattr(losses, str(self.peer))(**self.peer_options, **shape)
        if self.peer_miner is None:
            return partial(_call, loss, labels)
        miner = getattr(miners, self.peer_miner)(**self.peer_miner_options)
        return lambda x: loss(x, labels, miner(x, labels))


@dataclass(frozen=True)
class RegularizerRow(Row):
    """Row of a regularizer without a loss."""

    @property
    def title(self) -> str:
        return f"regularizer {self.name}"

    def ours(self, labels: Tensor) -> Callable[[Tensor], Tensor]:
        entry, classes = regularizers.registry[self.name], int(labels.max()) + 1
        given = {"embedding_size": SIZE} if "embedding_size" in entry.parameters else {}
        made = regularizers.create(self.name, **self.options, **given)
        proxies = torch.randn(classes, SIZE, generator=torch.Generator().manual_seed(0)).requires_grad_()
        known = {"labels": labels, "proxies": proxies}
        return lambda x: made(x, **{name: known[name] for name in entry.card.sees})


@dataclass(frozen=True)
class SynthesisRow(Row):
    """Row of a synthesis with its loss; a memory is filled before the measurement."""

    synthesis: str = ""

    @property
    def title(self) -> str:
        return f"{self.name} + {self.synthesis}"

    def ours(self, labels: Tensor) -> Callable[[Tensor], Tensor]:
        shape = {"num_classes": int(labels.max()) + 1, "embedding_size": SIZE} if self.classes else {}
        loss = lf.losses.create(self.name, **shape)
        made, generator = synthesis.create(self.synthesis, **self.options), torch.Generator()

        def loss_fn(samples: synthesis.LossInputs) -> Tensor:
            weights = {} if samples.proxies is None else {"weights": samples.proxies}
            value: Tensor = loss(samples.embeddings, samples.labels, samples.tuples, **weights)
            return value

        def total(x: Tensor) -> Tensor:
            batch = synthesis.LossInputs(x, labels, loss.weights if self.classes else None)
            value: Tensor = made(batch, loss_fn, generator=generator)
            return value

        for _ in range(int(self.options.get("steps", 0))):  # a memory costs nothing before it is full
            total(torch.randn(len(labels), SIZE))
        return total


def _call(loss: nn.Module, labels: Tensor, x: Tensor) -> Tensor:
    value: Tensor = loss(x, labels)
    return value


def _snr() -> dict[str, Any]:
    from pytorch_metric_learning.distances import SNRDistance

    return {"distance": SNRDistance()}


ROWS = [
    Row("contrastive", "ContrastiveLoss"),
    Row("triplet", "TripletMarginLoss", bar=10, peer_options={"margin": 0.2}),
    Row(
        "triplet",
        "TripletMarginLoss",
        bar=10,
        miner="semihard",
        peer_miner="TripletMarginMiner",
        peer_miner_options={"type_of_triplets": "semihard"},
    ),
    Row(
        "triplet",
        "TripletMarginLoss",
        bar=10,
        miner="distance_weighted",
        peer_miner="DistanceWeightedMiner",
    ),
    Row("ntxent", "NTXentLoss", bar=100),
    Row("supcon", "SupConLoss"),
    Row("margin", "MarginLoss", bar=10, peer_options={"learn_beta": True}),
    Row("fastap", "FastAPLoss"),
    Row("snr_contrastive", "SignalToNoiseRatioContrastiveLoss", bar=10),
    Row("snr_triplet", "TripletMarginLoss", bar=10, peer_options=_snr()),
    Row("multi_similarity", "MultiSimilarityLoss"),
    Row(
        "multi_similarity",
        "MultiSimilarityLoss",
        miner="multi_similarity",
        peer_miner="MultiSimilarityMiner",
    ),
    Row("angular", "AngularLoss", options={"npair_weight": 0.0, "angular_weight": 1.0, "l2": 0.0}),
    Row("npair", "NPairsLoss", options={"pairs": "class", "l2": 0.0}, note="of one pair per class"),
    Row("npair", "NPairsLoss", bar=1),
    Row("lifted_structure", "LiftedStructureLoss", bar=100),
    Row("generalized_lifted", "GeneralizedLiftedStructureLoss", options={"l2": 0.0}),
    Row("histogram", "HistogramLoss", bar=10, options={"num_bins": 101}),
    Row("quadruplet"),
    Row("tuplet_margin", "TupletMarginLoss", bar=100),
    Row("circle", "CircleLoss"),
    Row("nca", "NCALoss"),
    Row("smooth_ap"),
    Row("recall_at_k"),
    Row("siglip"),
    Row("ranked_list", "RankedListLoss", peer_options={"margin": 0.4, "Tn": 10}),
    Row("roadmap"),
    Row("pnp", "PNPLoss", bar=100, peer_options={"variant": "Dq"}),
    Row("contextual"),
    Row("hyperbolic"),
    Row("embedding_expansion"),
    Row("proxy_nca", "ProxyNCALoss", bar=1, classes=True, options={"include_positive": True}),
    Row("proxy_nca_pp", classes=True),
    Row("normalized_softmax", "NormalizedSoftmaxLoss", bar=1, classes=True),
    Row("cosface", "CosFaceLoss", bar=1, classes=True),
    Row("arcface", "ArcFaceLoss", bar=1, classes=True),
    Row("curricularface", classes=True),
    Row("adaface", classes=True),
    Row("magface", classes=True),
    Row("group", classes=True),
    Row("sphereface", "SphereFaceLoss", bar=1, classes=True),
    Row("subcenter_arcface", "SubCenterArcFaceLoss", bar=1, classes=True),
    Row("soft_triple", "SoftTripleLoss", bar=1, classes=True, options={"reg_weight": 0.0}),
    Row("proxy_anchor", "ProxyAnchorLoss", bar=1, classes=True),
    Row("proxy_proxy", classes=True),
    Row("circle_class", classes=True),
    Row("hist", classes=True),
    Row("cross_entropy", classes=True),
    RegularizerRow("threshold_consistent_margin"),
    RegularizerRow("anti_collapse"),
    RegularizerRow("anti_collapse_proxies"),
    RegularizerRow("non_isotropy"),
    RegularizerRow("hier"),
    SynthesisRow("proxy_anchor", synthesis="proxy_synthesis", classes=True),
    SynthesisRow("proxy_anchor", synthesis="memvir", options={"steps": 5, "gap": 0}, classes=True),
    SynthesisRow("contrastive", synthesis="metrix"),
]


def batch(size: int) -> tuple[Tensor, Tensor]:
    labels = torch.arange(size // PER_CLASS).repeat_interleave(PER_CLASS)
    x = torch.randn(size, SIZE, generator=torch.Generator().manual_seed(size))
    return x.requires_grad_(), labels


Clock = Callable[[], float]


def once(loss: Callable[[Tensor], Tensor], x: Tensor, *, clock: Clock = time.perf_counter) -> float:
    """Return the milliseconds of one forward and backward pass."""
    x.grad = None
    start = clock()
    loss(x).backward()
    return 1e3 * (clock() - start)


def best(
    functions: list[Callable[[Tensor], Tensor]], x: Tensor, *, seconds: float, clock: Clock
) -> list[float]:
    """Return the fewest milliseconds of each, timed in turn for ``seconds`` of the clock after a warm-up."""
    first = sum(once(function, x, clock=clock) for function in functions)
    if first > 1e3 * seconds:
        return [once(function, x, clock=clock) for function in functions]
    times: list[list[float]] = [[] for _ in functions]
    end = clock() + seconds
    while clock() < end or len(times[0]) < 3:
        for series, function in zip(times, functions, strict=True):
            series.append(once(function, x, clock=clock))
    return [min(series) for series in times]


def compare(rows: list[Row], sizes: list[int], seconds: float, clock: Clock) -> list[dict[str, Any]]:
    """Print and return times and ratios of every row at every batch size."""
    records = []
    for size in sizes:
        x, labels = batch(size)
        print(f"\nbatch {size:>4}                     ours ms   theirs ms    ratio     bar")
        for row in rows:
            functions = [row.ours(labels)] + ([row.theirs(labels)] if row.peer else [])
            ours, *theirs = best(functions, x, seconds=seconds, clock=clock)
            record = {"loss": row.title, "batch": size, "ours_ms": ours}
            if not theirs:
                print(f"{row.title:<36}{ours:>9.2f}", flush=True)
            else:
                ratio, bar = theirs[0] / ours, {512: row.bar}.get(size, 1.0)
                record |= {"theirs_ms": theirs[0], "ratio": ratio, "bar": bar}
                verdict = "" if ratio >= bar else "  below the bar"
                print(
                    f"{row.title:<36}{ours:>9.2f}{theirs[0]:>11.2f}{ratio:>9.1f}{bar:>8g}{verdict}",
                    flush=True,
                )
            records.append(record)
    return records


def large(size: int, *, names: list[str] | None) -> list[dict[str, Any]]:
    """Print and return time and peak memory of every row at one large batch size, one process per row."""
    records = []
    print(f"\nbatch {size:>5}                       ours ms     peak GB")
    for number, row in enumerate(ROWS):
        if names is not None and row.name not in names:
            continue
        command = [sys.executable, __file__, "--alone", str(number), "--batch", str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{row.title:<36} failed: {done.stderr.strip().splitlines()[-1:]}")
            continue
        record = json.loads(done.stdout)
        verdict = "" if record["peak_gb"] < LIMIT_GB else "  above the limit"
        print(f"{row.title:<36}{record['ours_ms']:>10.0f}{record['peak_gb']:>11.2f}{verdict}", flush=True)
        records.append(record)
    return records


def alone(row: Row, size: int) -> dict[str, Any]:
    """Return the time and the peak memory of one row, measured in this process."""
    x, labels = batch(size)
    loss = row.ours(labels)
    milliseconds = min(once(loss, x) for _ in range(2))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"loss": row.title, "batch": size, "ours_ms": milliseconds, "peak_gb": peak}


def plot(records: list[dict[str, Any]], path: Path) -> None:
    """Draw cost against batch size: ours as lines, theirs as dashed lines."""
    import matplotlib as mpl

    mpl.use("svg" if path.suffix == ".svg" else "agg")
    import matplotlib.pyplot as plt

    titles = sorted({r["loss"] for r in records if "theirs_ms" in r})
    columns = 5
    figure, axes = plt.subplots(
        -(-len(titles) // columns),
        columns,
        figsize=(15, 2.3 * -(-len(titles) // columns)),
        sharex=True,
        sharey=True,
    )
    for axis, title in zip(axes.flat, titles, strict=False):
        mine = [r for r in records if r["loss"] == title]
        axis.loglog([r["batch"] for r in mine], [r["ours_ms"] for r in mine], "o-", ms=3, label="levelfield")
        peer = [r for r in mine if "theirs_ms" in r]
        axis.loglog(
            [r["batch"] for r in peer],
            [r["theirs_ms"] for r in peer],
            "s--",
            ms=3,
            label="pytorch-metric-learning",
        )
        axis.set_title(title, fontsize=9)
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(titles) :]:
        axis.axis("off")
    axes.flat[0].legend(fontsize=7)
    figure.supxlabel("batch size")
    figure.supylabel("forward + backward, ms")
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 128, 512])
    parser.add_argument("--loss", nargs="+", help="only these losses")
    parser.add_argument("--seconds", type=float, default=1.0, help="time to spend on each row and batch size")
    parser.add_argument("--large", action="store_true", help="time and memory at 4,096 instead")
    parser.add_argument("--plot", type=Path, help="also time 32 to 4,096, and draw the costs")
    parser.add_argument("--cpu-time", action="store_true", help="measure processor time")
    parser.add_argument("--json", type=Path, help="write the records to this file")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone is not None:
        print(json.dumps(alone(ROWS[options.alone], options.batch[0])))
        return
    rows = [row for row in ROWS if options.loss is None or row.name in options.loss]
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, D = {SIZE}, {PER_CLASS} per class")
    clock = time.process_time if options.cpu_time else time.perf_counter
    records = (
        large(LARGE, names=options.loss)
        if options.large
        else compare(rows, options.batch, options.seconds, clock)
    )
    if options.plot:
        ours_only = [Row(**(vars(row) | {"peer": None})) for row in rows]
        records += compare(ours_only, [1024, 2048, 4096], options.seconds, clock)
        plot(records, options.plot)
    if options.json:
        options.json.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
