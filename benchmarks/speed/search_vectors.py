"""Indexes of many vectors, against faiss used directly and pytorch-metric-learning.

    python -m benchmarks.speed.search_vectors [--rows 1000000] [--kind hnsw|ivfpq] [--work DIRECTORY]
    python -m benchmarks.speed.search_vectors --images INDEX [--kind hnsw|ivfpq]

The first builds an index of clustered synthetic vectors. The second uses the real vectors of an image
index, such as that of CUB by ``benchmarks/speed/search.py``. The contenders run in turns and the best of
several rounds counts. Processor time is printed beside wall time, because other programs use the machine
too. Everything runs on one thread.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch

from levelfield.retrieval import index as retrieval_index
from levelfield.retrieval.embedders import Architecture, Preprocessing, build_network, write_model

K = 10
GOALS = (0.9, 0.95, 0.99)
ROUNDS = 7
GRID = {
    "hnsw": ((2,), (16, 32, 64, 128, 256, 512, 1024)),
    "ivfpq": ((4, 16, 64), (1, 2, 4, 8, 16, 32, 64, 128, 256)),
}


def in_turns(work: Mapping[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, tuple[float, float]]:
    """Return the least processor time and wall time of each function, in seconds."""
    found = {name: (float("inf"), float("inf")) for name in work}
    for _ in range(rounds):
        for name, do in work.items():
            began = time.process_time(), time.perf_counter()
            do()
            took = time.process_time() - began[0], time.perf_counter() - began[1]
            found[name] = (min(found[name][0], took[0]), min(found[name][1], took[1]))
    return found


def clustered(rows: int, *, seed: int, width: int = 128) -> np.ndarray:
    """Return unit vectors around 5,000 centers; their spread differs by direction, as for embeddings."""
    random = np.random.default_rng(0)
    scale = (np.arange(1, width + 1) ** -0.5).astype(np.float32)
    centers = random.normal(size=(5000, width)).astype(np.float32) * scale
    random = np.random.default_rng(seed)
    out = np.empty((rows, width), dtype=np.float32)
    for start in range(0, rows, 100_000):
        stop = min(start + 100_000, rows)
        noise = random.normal(size=(stop - start, width)).astype(np.float32) * scale
        part = centers[random.integers(5000, size=stop - start)] + 0.7 * noise
        out[start:stop] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return out


def indexed_vectors(directory: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors of an image index: nine tenths as the gallery, 1,000 of the others as queries."""
    index = retrieval_index.open_index(directory)
    every = index.vectors(np.array([item.row for item in index.all_images()], dtype=np.int64))
    queries = np.arange(0, len(every), 10)
    return np.delete(every, queries, axis=0), every[queries][:1000]


def toy_model(directory: Path, width: int) -> Path:
    """Write a model with this embedding size and return its path."""
    if (directory / "model.json").exists():
        return directory
    shape = Architecture(trunk="conv4", trunk_options={"width": 4}, size=width)
    write_model(
        directory, build_network(shape), architecture=shape, preprocessing=Preprocessing(size=(32, 32))
    )
    return directory


def build(data: np.ndarray, kind: str, work: Path) -> Path:
    """Build an index of ``data`` and return its path; an existing one is reused."""
    rows, width = data.shape
    out = work / f"index-{kind}-{rows}-{width}"
    memory = 64 << 30 if kind == "hnsw" else int(rows * 0.7 * width)  # too little for a graph
    with retrieval_index.open_or_create_index(
        out, toy_model(work / f"toy-{width}", width), memory=memory, exact_up_to=0
    ) as index:
        began = time.perf_counter()
        for start in range(len(index), rows, 10_000):
            stop = min(start + 10_000, rows)
            items = [
                retrieval_index.NewImage(f"{n}".encode(), f"/images/{n}.jpg", "") for n in range(start, stop)
            ]
            index.add(items, data[start:stop])
        written, cpu = time.perf_counter() - began, time.process_time()
        index.finish()
        facts = index.card.approximate
        assert facts is not None
        print(
            f"  rows written in {written:.1f} s; {facts.recipe} built and tuned to recall "
            f"{facts.recall:.3f} in {time.process_time() - cpu:.0f} s of processor time, "
            f"{facts.bytes / 1e6:.1f} MB; peak memory {peak_gb():.2f} GB",
            flush=True,
        )
    return out


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def faiss_parameters(index: Any, kind: str, *, effort: int, refine: int) -> Any:
    """Return the parameters of faiss's own search with refinement."""
    if kind == "hnsw":
        base = faiss.SearchParametersHNSW(efSearch=max(effort, K * refine))
    else:
        base = faiss.SearchParametersIVF(nprobe=effort)
    return faiss.IndexRefineSearchParameters(k_factor=refine, base_index_params=base)


def overlap(found: np.ndarray, exact: np.ndarray) -> float:
    """Return the share of true nearest neighbors that were found."""
    pairs = zip(found.tolist(), exact.tolist(), strict=True)
    return float(np.mean([len(set(a) & set(b)) / K for a, b in pairs]))


@dataclass(frozen=True)
class AtRecall:
    """Our search and faiss's at one setting: recall@10, and CPU and wall-clock seconds of all queries."""

    effort: int
    refine: int
    recall: float
    faiss_recall: float
    ours: tuple[float, float]
    faiss: tuple[float, float]


def search_times(
    out: Path, kind: str, data: np.ndarray, queries: np.ndarray, goals: tuple[float, ...] = GOALS
) -> Iterator[AtRecall]:
    """Yield the first setting that reaches each goal; faiss has the same index with its exact refinement."""
    opened = retrieval_index.open_index(out)
    exact, _ = retrieval_index.search_exactly(opened._vectors, queries, K)
    approximate = opened._open_approximate()
    peer = faiss.IndexRefineFlat(
        faiss.read_index(str(out / opened.card.approximate_file)), faiss.swig_ptr(data)
    )
    # faiss.contrib.torch_utils, which the peer imports, replaces search by one without params
    faiss_search = getattr(peer, "search_numpy", peer.search)
    reached: set[float] = set()
    for refine, effort in itertools.product(*GRID[kind]):
        approximate.refine, approximate.effort = refine, effort
        recall = overlap(opened.nearest(queries, K)[0], exact)
        new = {goal for goal in goals if recall >= goal} - reached
        if not new:
            continue
        reached |= new
        options = faiss_parameters(peer, kind, effort=effort, refine=refine)
        times = in_turns(
            {
                "ours": lambda: opened.nearest(queries, K),
                "faiss": lambda options=options: faiss_search(queries, K, params=options),
            }
        )
        theirs = overlap(faiss_search(queries, K, params=options)[1], exact)
        yield AtRecall(effort, refine, recall, theirs, times["ours"], times["faiss"])
        if reached == set(goals):
            return


def compare(out: Path, kind: str, data: np.ndarray, queries: np.ndarray) -> None:
    """Compare opening and search with faiss alone."""

    def open_it() -> None:
        retrieval_index.open_index(out).nearest(queries[:1], K)

    print(f"  opens, with its first result, in {in_turns({'': open_it})[''][1]:.2f} s", flush=True)
    for at in search_times(out, kind, data, queries):
        (cpu, wall), (faiss_cpu, faiss_wall) = at.ours, at.faiss
        print(
            f"  recall@10 {at.recall:.3f} (effort {at.effort}, refine {at.refine}): {len(queries) / cpu:.0f} "
            f"queries per second of processor time; faiss {len(queries) / faiss_cpu:.0f} at "
            f"{at.faiss_recall:.3f}: {cpu / faiss_cpu:.2f} times its time "
            f"({wall / faiss_wall:.2f} in wall time)",
            flush=True,
        )


def peer_library(data: np.ndarray, queries: np.ndarray, work: Path) -> None:
    """Run pytorch-metric-learning's InferenceModel with its default search, which is exact."""
    from pytorch_metric_learning.utils.inference import InferenceModel

    model = InferenceModel(torch.nn.Identity(), normalize_embeddings=False)
    began = time.process_time()
    model.train_knn(torch.from_numpy(data), batch_size=10_000)
    built = time.process_time() - began
    model.save_knn_func(str(work / "peer.faiss"))
    some = torch.from_numpy(queries[:100])
    began_open = time.perf_counter()
    model.load_knn_func(str(work / "peer.faiss"))
    model.get_nearest_neighbors(some[:1], K)
    opened = time.perf_counter() - began_open
    began = time.process_time()
    model.get_nearest_neighbors(some, K)
    rate = len(some) / (time.process_time() - began)
    print(
        f"  pytorch-metric-learning InferenceModel: built in {built:.1f} s of processor time, opens in "
        f"{opened:.2f} s, {rate:.0f} queries per second of processor time at recall 1; "
        f"{(work / 'peer.faiss').stat().st_size / 1e6:.0f} MB, all in memory",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kind", choices=("hnsw", "ivfpq"), default="ivfpq")
    parser.add_argument("--images", type=Path)
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    faiss.omp_set_num_threads(1)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        if given.images:
            data, queries = indexed_vectors(given.images)
        else:
            data, queries = clustered(given.rows, seed=1), clustered(1000, seed=2)
        print(f"{len(data):,} x {data.shape[1]}, {given.kind}, one thread", flush=True)
        compare(build(data, given.kind, work), given.kind, data, queries)
        peer_library(data, queries, work)


if __name__ == "__main__":
    main()
