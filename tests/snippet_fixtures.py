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


def prepare_folder(document: str, small: Callable[[list[str]], list[str]]) -> None:
    """Write the files that a document's commands read into the current folder."""
    import numpy as np

    from levelfield.cli._app import run_app
    from made_experiments import written

    if document == "docs/metrics.md":
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
            written(Path("runs") / name, name=name, dataset=dataset, means=means)
    if document == "docs/protocol.md":
        Path("exp.yaml").write_text(EXPERIMENT)
        assert run_app(small(["run", "exp.yaml"])) == 0
