"""Print the speed of levelfield against other libraries in one table, as ratios.

    python -m benchmarks.speed.table                       # full sizes; half an hour
    python -m benchmarks.speed.table --quick               # small sizes, for CI; minutes
    python -m benchmarks.speed.table --part losses search  # only these parts
    python -m benchmarks.speed.table --quick --compare benchmarks/speed/released/quick.json

A ratio is the other library's time divided by ours: 2 means that levelfield takes half the time. Contenders
take turns on the same data, and the best round counts. Compare ratios of CPU time between machines and
releases; wall-clock time is for a quiet machine. ``--json`` writes the ratios. ``--compare`` shows those of
an earlier file beside the new ones, and marks what lost more than a quarter.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

import levelfield as lf
from benchmarks.speed import job as whole_job
from benchmarks.speed import losses as loss_rows
from benchmarks.speed import metrics as metric_rows
from benchmarks.speed.search import indexing_times, lite0
from benchmarks.speed.search_vectors import K, build, clustered, in_turns, search_times
from levelfield import data

PML = "pytorch-metric-learning"
LOST = 0.75  # of the earlier ratio; single rounds on busy machines differ by up to a fifth


@dataclass(frozen=True)
class Ratio:
    """Row of the table: the other side's time divided by ours; ``wall`` is None where not taken."""

    part: str
    what: str
    peer: str
    cpu: float
    wall: float | None
    note: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.part, self.what, self.peer


def part_job(*, quick: bool, workers: int) -> Iterator[Ratio]:
    """The whole job: search, reruns, test scores and report."""
    amount = whole_job.QUICK if quick else whole_job.FULL
    ours, theirs = whole_job.measure(amount, workers=workers)
    note = f"{ours.cpu:.0f} against {theirs.cpu:.0f} s of CPU time"
    title, peer = whole_job.title(amount), f"{PML} + Optuna"
    yield Ratio("job", title, peer, theirs.cpu / ours.cpu, theirs.wall / ours.wall, note)


def part_losses(*, quick: bool, workers: int) -> Iterator[Ratio]:
    """Forward and backward pass of every loss that both libraries have."""
    rows = [row for row in loss_rows.ROWS if row.peer]
    for size in (32, 128) if quick else (32, 512):
        x, labels = loss_rows.batch(size)
        found: dict[str, float] = {}
        for row in rows:
            functions = [row.ours(labels), row.theirs(labels)]
            ours, theirs = loss_rows.best(
                functions, x, seconds=0.1 if quick else 1.0, clock=time.process_time
            )
            found[row.title] = theirs / ours
        least = min(found, key=found.__getitem__)
        note = f"least {found[least]:.2f} ({least}), most {max(found.values()):.0f}"
        middle = statistics.median(found.values())
        title = f"{len(found)} losses, batch of {size}, median"
        yield Ratio("losses", title, PML, middle, None, note)
        yield Ratio("losses", f"the least of them, batch of {size}", PML, found[least], None, least)


def part_metrics(*, quick: bool, workers: int) -> Iterator[Ratio]:
    """P@1, R-precision and MAP@R of a whole test set."""
    for name in ("small", "cub128") if quick else ("cub128", "cub512", "sop"):
        rows, width, classes = metric_rows.WORK[name]
        made, labels = metric_rows.embeddings(rows, width, classes)
        contenders = {
            "ours": partial(metric_rows.levelfield, made, labels),
            "theirs": partial(metric_rows.pml, made, labels),
        }
        for warm_up in (metric_rows.levelfield, metric_rows.pml):
            warm_up(made[:512], labels[:512])
        times = in_turns(contenders, rounds=1 if name == "sop" else 3)
        title = f"P@1, R-precision, MAP@R of {rows:,} x {width}, {classes:,} classes"
        yield _ratio("metrics", title, PML, times["ours"], times["theirs"])


def part_search(*, quick: bool, workers: int) -> Iterator[Ratio]:
    """Nearest vectors from an approximate index, against faiss alone and against exact search."""
    from pytorch_metric_learning.utils.inference import InferenceModel

    rows = 20_000 if quick else 200_000
    vectors, queries = clustered(rows, seed=1), clustered(1000, seed=2)
    with tempfile.TemporaryDirectory() as name:
        index = build(vectors, "hnsw", Path(name))
        (at,) = search_times(index, "hnsw", vectors, queries, (0.95,))
        note = f"recall@{K} {at.recall:.3f}, faiss {at.faiss_recall:.3f}"
        yield _ratio("search", f"{rows:,} x 128, HNSW, 1,000 queries", "faiss", at.ours, at.faiss, note=note)
        model = InferenceModel(torch.nn.Identity(), normalize_embeddings=False)
        model.train_knn(torch.from_numpy(vectors), batch_size=10_000)
        asked = torch.from_numpy(queries)
        theirs = in_turns({"theirs": lambda: model.get_nearest_neighbors(asked, K)}, rounds=3)["theirs"]
        note = f"ours at recall@{K} {at.recall:.3f}, theirs exact"
        yield _ratio(
            "search", f"{rows:,} x 128, 1,000 queries", f"{PML} InferenceModel", at.ours, theirs, note=note
        )


def part_indexing(*, quick: bool, workers: int) -> Iterator[Ratio]:
    """Image files to an index, with EfficientNet-Lite0 at 224 pixels."""
    count = 32 if quick else 400
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        dataset = photographs(work / "photographs", count)
        model = lite0(work / "lite0", weights="none")  # the time does not depend on the weights
        times = indexing_times(model, dataset, work, rounds=2 if quick else 3)
    ours = times.pop("levelfield index")
    for peer, theirs in times.items():
        name = f"{PML} InferenceModel" if peer.startswith(PML) else peer
        yield _ratio("indexing", f"{count} JPEG files of 500 x 375", name, ours, theirs)


def photographs(directory: Path, count: int) -> data.Dataset:
    """Return a dataset of JPEG files of CUB's usual size, with smooth colors and some noise."""
    from PIL import Image

    directory.mkdir(parents=True)
    random = np.random.default_rng(0)
    for number in range(count):
        coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), dtype=np.float32)
        noisy = (smooth + random.normal(0, 8, smooth.shape)).clip(0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(directory / f"{number:04d}.jpg", quality=92)
    names = sorted(file.name for file in directory.iterdir())
    labels = [min(1, 2 * number // count) for number in range(count)]
    return data.from_files("photographs", directory, names, labels, ["first", "second"])


Times = tuple[float, float]


def _ratio(part: str, what: str, peer: str, ours: Times, theirs: Times, *, note: str = "") -> Ratio:
    return Ratio(part, what, peer, theirs[0] / ours[0], theirs[1] / ours[1], note)


PARTS: dict[str, Callable[..., Iterator[Ratio]]] = {
    "job": part_job,
    "losses": part_losses,
    "metrics": part_metrics,
    "search": part_search,
    "indexing": part_indexing,
}


def read_earlier(file: Path) -> tuple[str, dict[tuple[str, str, str], float]]:
    """Return the version of a JSON file and its ratios of CPU time."""
    content = json.loads(file.read_text())
    rows = (Ratio(**row) for row in content["ratios"])
    return content["version"], {row.key: row.cpu for row in rows}


def table(
    rows: list[Ratio], earlier: tuple[str, dict[tuple[str, str, str], float]] | None = None
) -> list[str]:
    """Return the lines of a Markdown table.

    Example:
        >>> rows = [Ratio("losses", "a loss", "peer", 2.0, 2.1, "")]
        >>> table(rows, ("0.1.0", {("losses", "a loss", "peer"): 4.0}))[-1]
        '| losses | a loss | peer | 2.00 | 2.10 |  | 4.00, lost 50% |'
    """
    heads = ["part", "what", "against", "times as fast, CPU time", "wall-clock", "note"]
    if earlier:
        heads.append(f"CPU time in {earlier[0]}")
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in rows:
        cells = [
            row.part,
            row.what,
            row.peer,
            f"{row.cpu:.2f}",
            "" if row.wall is None else f"{row.wall:.2f}",
            row.note,
        ]
        if earlier:
            before = earlier[1].get(row.key)
            lost = before is not None and row.cpu < LOST * before
            share = f", lost {1 - row.cpu / before:.0%}" if before and lost else ""
            cells.append("not measured" if before is None else f"{before:.2f}{share}")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--part", nargs="+", choices=tuple(PARTS), default=tuple(PARTS))
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1), help="of the whole job")
    parser.add_argument("--json", type=Path, help="write the ratios to this file; parts that it has are kept")
    parser.add_argument("--compare", type=Path, help="earlier JSON file of the same sizes")
    options = parser.parse_args()
    torch.set_num_threads(1)
    size = "quick" if options.quick else "full"
    kept: dict[str, list[Ratio]] = {}
    if options.json and options.json.exists():
        for row in json.loads(options.json.read_text())["ratios"]:
            kept.setdefault(row["part"], []).append(Ratio(**row))
    for part in options.part:
        kept[part] = list(PARTS[part](quick=options.quick, workers=options.workers))
        rows = [row for name in PARTS for row in kept.get(name, [])]
        if options.json:  # after each part, so that an interruption loses little
            options.json.parent.mkdir(parents=True, exist_ok=True)
            content: dict[str, object] = {"version": lf.__version__, "size": size}
            content |= {"date": datetime.date.today().isoformat()}
            content |= {"torch": str(torch.__version__), "cores": os.cpu_count()}
            options.json.write_text(
                json.dumps({**content, "ratios": [asdict(row) for row in rows]}, indent=1) + "\n"
            )
    print(f"{size} sizes, {datetime.date.today()}, {os.cpu_count()} CPU cores, torch {torch.__version__}\n")
    print("\n".join(table(rows, read_earlier(options.compare) if options.compare else None)))


if __name__ == "__main__":
    main()
