"""Arrays, models and records that the snippets of a document use without making them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

SMALL_EXPERIMENT = """
preset: demo
dataset: {name: glyphs, samples_per_class: 4}
split: {folds: 2}
trunk: {width: 4}
methods: [contrastive, triplet]
training: {max_epochs: 1, iterations_per_epoch: 2}
search: {trials: 1, sampler: random}
confirm: {reruns: 2}
engine: {workers: 0}
"""
EXPERIMENT = """
preset: demo
methods: [{name: switched, loss: margin, miner: rho_switch}]
"""


def prepare(document: str, names: dict[str, Any]) -> None:
    """Add the names that a document's Python blocks use without making them to ``names``."""
    import torch

    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(8).repeat_interleave(10)
    embeddings = torch.randn(80, 16, generator=generator)
    if document in ("README.md", "docs/metrics.md"):
        names |= {"embeddings": embeddings, "labels": labels}
        names |= {"queries": embeddings[::4], "query_labels": labels[::4]}
        names |= {"items": embeddings[1::4], "item_labels": labels[1::4]}
    if document in EXPERIMENT_FILES:
        Path(EXPERIMENT_FILES[document]).write_text(SMALL_EXPERIMENT)
    if document == "docs/guides/choose-model.md":
        write_photos(Path("photos"))
    if document == "docs/losses.md":
        names |= {"model": torch.nn.Linear(8, 128)}
    if document == "docs/search.md":
        write_index()
    if document in RECORDS:
        from levelfield.analysis.optuna_studies import export_study
        from tests.helpers.made_experiments import written

        name = RECORDS[document]
        means = {"contrastive": 0.5, "triplet": 0.4, "untrained": 0.1}
        export_study([written(Path("runs") / name, name=name, means=means)], "study.db")


# Documents whose Python blocks run an experiment file of this name.
EXPERIMENT_FILES = {"README.md": "my-comparison.yaml", "docs/api.md": "experiment.yaml"}
# Documents whose Python blocks read the records of an experiment of this name.
RECORDS = {"docs/start.md": "first", "docs/guides/pandas-and-optuna.md": "mine"}


PHOTO_GUIDES = ("own-photos", "search-your-photos", "choose-model")


def write_photos(folder: Path) -> None:
    """Write images of eight classes, and one query image."""
    from PIL import Image

    for number in range(48):
        subfolder = folder / f"kind {number % 8}"
        subfolder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 40), (30 * (number % 8), 5 * number, 10)).save(subfolder / f"{number}.png")
    Image.new("RGB", (40, 40), (99, 99, 10)).save("photo.jpg")


def write_index() -> None:
    """Write a model, images and their index to the current directory."""
    from PIL import Image

    from levelfield.retrieval import embedders, index

    shape = embedders.Architecture(trunk="conv4", size=8)
    seen = embedders.Preprocessing(size=(32, 32))
    network = embedders.build_network(shape)
    embedders.write_model("model", network, architecture=shape, preprocessing=seen)
    Path("photos").mkdir()
    for number in range(8):
        Image.new("RGB", (40, 40), (30 * number, 99, 10)).save(f"photos/{number}.png")
    for name in ("photo.jpg", "a.jpg", "b.jpg"):
        Image.new("RGB", (40, 40), (99, 99, 10)).save(name)
    with index.open_or_create_index("index", "model") as made:
        index.add_images(made, embedders.load_embedder("model"), index.images_from_folder("photos"))


def write_embeddings_of_models() -> None:
    """Write embeddings of the same images by an old model and by several seeds of a new one."""
    import numpy as np
    from PIL import Image

    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(20), 6)
    centers = generator.normal(size=(20, 8))[labels]
    paths = np.array([f"{number}.png" for number in range(len(labels))])
    Path("photos").mkdir()
    for number, path in enumerate(paths):
        Image.new("RGB", (30, 30), (2 * number, 99, 10)).save(Path("photos", path))
    for name in ("new", "old", "new-1", "new-2", "new-3", "monday", "friday", "sunday"):
        embeddings = centers + (1.5 if name == "old" else 0.7) * generator.normal(size=centers.shape)
        np.savez(f"{name}.npz", embeddings=embeddings, labels=labels, paths=paths)


def write_two_models() -> None:
    """Write embeddings of the same items by two models."""
    import numpy as np

    generator = np.random.default_rng(0)
    for name in ("a", "b"):
        vectors = generator.normal(size=(40, 8)) + np.arange(40)[:, None] // 4
        np.savez(f"{name}.npz", embeddings=vectors, labels=np.arange(40) // 4)


def write_submissions() -> None:
    """Write solution files of the landmark challenge, submissions, and embeddings with names."""
    import numpy as np

    generator = np.random.default_rng(0)
    names = np.array(["queries/1.jpg", "queries/2.jpg", "a.jpg", "b.jpg", "c.jpg", "d.jpg"])
    for name in ("new", "old"):
        np.savez(f"{name}.npz", embeddings=generator.normal(size=(6, 8)), paths=names)
    queries = [f"q{number}" for number in range(20)]
    listed = {query: " ".join(f"{query}x{k}" for k in range(4)) for query in queries}
    files = {
        "retrieval_solution_v2.1": ("id,images,Usage", [f"{q},{own},Public" for q, own in listed.items()]),
        "mine": ("id,images", [f"{q},{own}" for q, own in listed.items()]),
        "theirs": ("id,images", [f"{q},other{n % 3} {own}" for n, (q, own) in enumerate(listed.items())]),
        "recognition_solution_v2.1": (
            "id,landmarks,Usage",
            [f"{q},{n},Private" for n, q in enumerate(queries)],
        ),
        "answers": ("id,landmarks", [f"{q},{n % 15} 0.{n:02}" for n, q in enumerate(queries)]),
    }
    for name, (head, lines) in files.items():
        Path(f"{name}.csv").write_text("\n".join([head, *lines]) + "\n")


def write_records() -> None:
    """Write the records of one experiment."""
    from tests.helpers.made_experiments import written

    written(Path("runs/mine"), name="mine", means={"contrastive": 0.5, "triplet": 0.4, "untrained": 0.1})


# Documents whose commands read the files that one function writes.
def write_published_arenas() -> None:
    """Write experiments on two datasets that papers published scores of."""
    from tests.helpers.made_experiments import written

    means = {"contrastive": 0.5, "triplet": 0.4, "pretrained": 0.1}
    for name, dataset in {"cub": "cub200", "cars": "cars196"}.items():
        written(Path("runs") / name, name=name, dataset=dataset, means=means, baseline="pretrained")


WRITERS = {
    "docs/published.md": write_published_arenas,
    "README.md": write_two_models,
    "docs/guides/landmarks.md": write_submissions,
    "docs/guides/new-model.md": write_embeddings_of_models,
    "docs/guides/pandas-and-optuna.md": write_records,
}


def prepare_directory(document: str, small: Callable[[list[str]], list[str]]) -> None:
    """Write the files that a document's commands read to the current directory."""
    import numpy as np

    from levelfield.cli._app import run_app
    from tests.helpers.made_experiments import written

    if document in ("README.md", *(f"docs/guides/{name}.md" for name in PHOTO_GUIDES)):
        write_photos(Path("photos"))
    if document in WRITERS:
        WRITERS[document]()
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
            for directory in ("runs", "results"):
                written(Path(directory) / name, name=name, dataset=dataset, means=means)
    if document == "docs/protocol.md":
        Path("exp.yaml").write_text(EXPERIMENT)
        assert run_app(small(["run", "exp.yaml"])) == 0
    if document == "docs/search.md":
        from PIL import Image

        generator = np.random.default_rng(0)
        for number in range(12):
            subfolder = Path("photos", "old" if number % 2 else "new")
            subfolder.mkdir(parents=True, exist_ok=True)
            pixels = generator.integers(0, 256, (40, 40, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(subfolder / f"{number}.png")
            if number < 2:
                Image.fromarray(pixels).save(("photo.jpg", "other-side.jpg")[number])
        for name, first in {"test": 0, "development": 20}.items():
            labels = first + np.arange(200) // 10
            embeddings = generator.normal(size=(200, 8)) + generator.normal(size=(60, 8))[labels]
            np.savez(f"{name}.npz", embeddings=embeddings, labels=labels)
