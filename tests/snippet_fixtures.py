"""What the snippets of a document take for granted: arrays, a model, folders of records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

EXPERIMENT = """
preset: demo
methods: [{name: switched, loss: margin, miner: rho_switch}]
"""


def prepare(document: str, names: dict[str, Any]) -> None:
    """Put the names that a document's Python blocks use without making them into ``names``."""
    import torch

    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(8).repeat_interleave(10)
    embeddings = torch.randn(80, 16, generator=generator)
    if document in ("README.md", "docs/metrics.md"):
        names |= {"embeddings": embeddings, "labels": labels}
        names |= {"queries": embeddings[::4], "query_labels": labels[::4]}
        names |= {"items": embeddings[1::4], "item_labels": labels[1::4]}
    if document == "docs/losses.md":
        names |= {"model": torch.nn.Linear(8, 128)}
    if document == "docs/search.md":
        write_index()
    if document in RECORDS:
        from levelfield.protocol import export_study
        from made_experiments import written

        name = RECORDS[document]
        means = {"contrastive": 0.5, "triplet": 0.4, "untrained": 0.1}
        export_study([written(Path("runs") / name, name=name, means=means)], "study.db")


# Documents whose Python blocks read the records of an experiment of this name.
RECORDS = {"docs/start.md": "first", "docs/guides/pandas-and-optuna.md": "mine"}


def write_photos(folder: Path) -> None:
    """Pictures of eight classes, and one to search with."""
    from PIL import Image

    for number in range(48):
        home = folder / f"kind {number % 8}"
        home.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 40), (30 * (number % 8), 5 * number, 10)).save(home / f"{number}.png")
    Image.new("RGB", (40, 40), (99, 99, 10)).save("photo.jpg")


def write_index() -> None:
    """A model, pictures and their index in the current folder."""
    from PIL import Image

    from levelfield import embedders, index

    shape = embedders.Architecture(trunk="conv4", size=8)
    seen = embedders.Preprocessing(size=(32, 32))
    network = embedders.build_network(shape)
    embedders.write_model("model", network, architecture=shape, preprocessing=seen)
    Path("photos").mkdir()
    for number in range(8):
        Image.new("RGB", (40, 40), (30 * number, 99, 10)).save(f"photos/{number}.png")
    for name in ("photo.jpg", "a.jpg", "b.jpg"):
        Image.new("RGB", (40, 40), (99, 99, 10)).save(name)
    with index.writing("index", "model") as made:
        index.add_pictures(made, embedders.load_embedder("model"), index.pictures_in_folder("photos"))


def prepare_folder(document: str, small: Callable[[list[str]], list[str]]) -> None:
    """Write the files that a document's commands read into the current folder."""
    import numpy as np

    from levelfield.cli._app import run_app
    from made_experiments import written

    if document in ("README.md", "docs/guides/own-photos.md", "docs/guides/search-your-photos.md"):
        write_photos(Path("photos"))
    if document == "docs/guides/pandas-and-optuna.md":
        written(Path("runs/mine"), name="mine", means={"contrastive": 0.5, "triplet": 0.4, "untrained": 0.1})
    if document in ("docs/metrics.md", "docs/guides/score-embeddings.md"):
        generator = np.random.default_rng(0)
        labels = np.arange(200) // 10
        embeddings = generator.normal(size=(200, 8)) + labels[:, None]
        np.savez("embeddings.npz", embeddings=embeddings, labels=labels)
        for name, rows in {"queries": slice(0, None, 2), "items": slice(1, None, 2)}.items():
            np.save(f"{name}.npy", embeddings[rows])
            Path(f"{name}.txt").write_text("\n".join(str(label) for label in labels[rows]) + "\n")
    if document == "docs/reports.md":
        means = {"contrastive": 0.5, "triplet": 0.4, "arcface": 0.3, "untrained": 0.1}
        for name, dataset in {"cub": "cub200", "cars": "cars196", "sop": "sop"}.items():
            for folder in ("runs", "results"):
                written(Path(folder) / name, name=name, dataset=dataset, means=means)
    if document == "docs/protocol.md":
        Path("exp.yaml").write_text(EXPERIMENT)
        assert run_app(small(["run", "exp.yaml"])) == 0
    if document == "docs/search.md":
        from PIL import Image

        generator = np.random.default_rng(0)
        for number in range(12):
            home = Path("photos", "old" if number % 2 else "new")
            home.mkdir(parents=True, exist_ok=True)
            pixels = generator.integers(0, 256, (40, 40, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(home / f"{number}.png")
            if number < 2:
                Image.fromarray(pixels).save(("photo.jpg", "other-side.jpg")[number])
        for name, first in {"test": 0, "development": 20}.items():
            labels = first + np.arange(200) // 10
            embeddings = generator.normal(size=(200, 8)) + generator.normal(size=(60, 8))[labels]
            np.savez(f"{name}.npz", embeddings=embeddings, labels=labels)
