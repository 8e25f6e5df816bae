"""Indexes of many vectors, measured next to faiss used directly and to pytorch-metric-learning.

    python benchmarks/search_vectors.py [--rows 1000000] [--kind hnsw|ivfpq] [--work FOLDER]
    python benchmarks/search_vectors.py --pictures INDEX [--kind hnsw|ivfpq]

The first builds an index of clustered synthetic vectors; the second takes the real vectors of an index of
pictures, such as that of CUB by ``benchmarks/search.py``. What is compared runs in turns, the best of several
rounds counts, and seconds of the processor are given beside those of the clock, since other programs on
the machine come and go. Everything runs on one thread.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch

from levelfield import index as room
from levelfield.embedders import Architecture, Preprocessing, build_network, write_model

K = 10
GOALS = (0.9, 0.95, 0.99)
ROUNDS = 7
GRID = {
    "hnsw": ((2,), (16, 32, 64, 128, 256, 512, 1024)),
    "ivfpq": ((4, 16, 64), (1, 2, 4, 8, 16, 32, 64, 128, 256)),
}


def in_turns(work: Mapping[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, tuple[float, float]]:
    """The least seconds of the processor and of the clock that each piece of work took."""
    found = {name: (float("inf"), float("inf")) for name in work}
    for _ in range(rounds):
        for name, do in work.items():
            began = time.process_time(), time.perf_counter()
            do()
            took = time.process_time() - began[0], time.perf_counter() - began[1]
            found[name] = (min(found[name][0], took[0]), min(found[name][1], took[1]))
    return found


def clustered(rows: int, *, seed: int, width: int = 128) -> np.ndarray:
    """Unit vectors around 5,000 centres, whose spread differs by direction as that of embeddings does."""
    random = np.random.default_rng(0)
    scale = (np.arange(1, width + 1) ** -0.5).astype(np.float32)
    centres = random.normal(size=(5000, width)).astype(np.float32) * scale
    random = np.random.default_rng(seed)
    out = np.empty((rows, width), dtype=np.float32)
    for start in range(0, rows, 100_000):
        stop = min(start + 100_000, rows)
        noise = random.normal(size=(stop - start, width)).astype(np.float32) * scale
        part = centres[random.integers(5000, size=stop - start)] + 0.7 * noise
        out[start:stop] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return out


def of_pictures(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The vectors of an index of pictures: nine tenths to be searched, 1,000 of the others to search with."""
    index = room.open_index(folder)
    every = index.vectors(np.array([item.row for item in index.everything()], dtype=np.int64))
    asked = np.arange(0, len(every), 10)
    return np.delete(every, asked, axis=0), every[asked][:1000]


def toy_model(folder: Path, width: int) -> Path:
    """A model whose only use is to have the right width."""
    if (folder / "model.json").exists():
        return folder
    shape = Architecture(trunk="conv4", trunk_options={"width": 4}, size=width)
    write_model(folder, build_network(shape), architecture=shape, preprocessing=Preprocessing(size=(32, 32)))
    return folder


def build(data: np.ndarray, kind: str, work: Path) -> Path:
    """An index of ``data``; one that is there already is taken as it is."""
    rows, width = data.shape
    out = work / f"index-{kind}-{rows}-{width}"
    memory = 64 << 30 if kind == "hnsw" else int(rows * 0.7 * width)  # too little for a graph
    with room.writing(out, toy_model(work / f"toy-{width}", width), memory=memory, exact_up_to=0) as index:
        began = time.perf_counter()
        for start in range(len(index), rows, 10_000):
            stop = min(start + 10_000, rows)
            items = [room.NewItem(f"{n}".encode(), f"/pictures/{n}.jpg", "") for n in range(start, stop)]
            index.add(items, data[start:stop])
        written, cpu = time.perf_counter() - began, time.process_time()
        index.finish()
        facts = index.card.approximate
        assert facts is not None
        print(
            f"  rows written in {written:.1f} s; {facts.recipe} built and tuned to recall "
            f"{facts.recall:.3f} in {time.process_time() - cpu:.0f} s of the processor, "
            f"{facts.bytes / 1e6:.1f} MB; peak memory {peak_gb():.2f} GB",
            flush=True,
        )
    return out


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def directly(index: Any, kind: str, *, effort: int, refine: int) -> Any:
    """Parameters of faiss's own search with refinement."""
    if kind == "hnsw":
        base = faiss.SearchParametersHNSW(efSearch=max(effort, K * refine))
    else:
        base = faiss.SearchParametersIVF(nprobe=effort)
    return faiss.IndexRefineSearchParameters(k_factor=refine, base_index_params=base)


def overlap(found: np.ndarray, exact: np.ndarray) -> float:
    """The share of the true nearest that was found."""
    pairs = zip(found.tolist(), exact.tolist(), strict=True)
    return float(np.mean([len(set(a) & set(b)) / K for a, b in pairs]))


def compare(out: Path, kind: str, data: np.ndarray, queries: np.ndarray) -> None:
    """Open, search, and the same with faiss alone: its index with exact refinement, all in its own code."""

    def open_it() -> None:
        room.open_index(out).nearest(queries[:1], K)

    print(f"  opens, with its first answer, in {in_turns({'': open_it})[''][1]:.2f} s", flush=True)
    opened = room.open_index(out)
    exact, _ = room.search_exactly(opened._vectors, queries, K)
    approximate = opened._opened()
    peer = faiss.IndexRefineFlat(
        faiss.read_index(str(out / opened.card.approximate_file)), faiss.swig_ptr(data)
    )
    reached: set[float] = set()
    for refine, effort in itertools.product(*GRID[kind]):
        approximate.refine, approximate.effort = refine, effort
        recall = overlap(opened.nearest(queries, K)[0], exact)
        new = {goal for goal in GOALS if recall >= goal} - reached
        if not new:
            continue
        reached |= new
        options = directly(peer, kind, effort=effort, refine=refine)
        times = in_turns(
            {
                "ours": lambda: opened.nearest(queries, K),
                "faiss": lambda options=options: peer.search(queries, K, params=options),
            }
        )
        theirs = overlap(peer.search(queries, K, params=options)[1], exact)
        (cpu, wall), (faiss_cpu, faiss_wall) = times["ours"], times["faiss"]
        print(
            f"  recall@10 {recall:.3f} (effort {effort}, refine {refine}): {len(queries) / cpu:.0f} queries "
            f"per second of the processor; faiss {len(queries) / faiss_cpu:.0f} at {theirs:.3f}: "
            f"{cpu / faiss_cpu:.2f} times its time ({wall / faiss_wall:.2f} by the clock)",
            flush=True,
        )
        if reached == set(GOALS):
            return


def peer_library(data: np.ndarray, queries: np.ndarray, work: Path) -> None:
    """pytorch-metric-learning's InferenceModel with its default search, which is exact."""
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
        f"  pytorch-metric-learning InferenceModel: built in {built:.1f} s of the processor, opens in "
        f"{opened:.2f} s, {rate:.0f} queries per second of the processor at recall 1; "
        f"{(work / 'peer.faiss').stat().st_size / 1e6:.0f} MB, all in memory",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kind", choices=("hnsw", "ivfpq"), default="ivfpq")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    faiss.omp_set_num_threads(1)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        if given.pictures:
            data, queries = of_pictures(given.pictures)
        else:
            data, queries = clustered(given.rows, seed=1), clustered(1000, seed=2)
        print(f"{len(data):,} x {data.shape[1]}, {given.kind}, one thread", flush=True)
        compare(build(data, given.kind, work), given.kind, data, queries)
        peer_library(data, queries, work)


if __name__ == "__main__":
    main()
