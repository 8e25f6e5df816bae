"""Attack model cards and index cards: load thousands of hostile variants of a small model and its index.

    python -m tools.attacks.model_cards --count 10000

Each variant has the identity that its own content demands, as an attacker would write it. A variant must be
refused in one line or load within 10 s, and no code that it names may run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from pydantic import ValidationError

from levelfield.core.errors import LevelfieldError
from levelfield.retrieval.embedders import (
    Architecture,
    ModelCard,
    Preprocessing,
    load_embedder,
    write_model,
)
from levelfield.retrieval.embedders._model_directory import build_network
from levelfield.retrieval.index import Searcher, add_images, images_from_folder, open_or_create_index
from tools.attacks.limits import Score
from tools.attacks.mutations import variants


def main() -> int:
    """Run the attacks and print the score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        return attack_cards(Path(place), arguments.count, arguments.seed).show()


def attack_cards(place: Path, count: int, seed: int) -> Score:
    """Attack ``count`` times, half of them through an index."""
    model, index = make_model(place / "model"), place / "index"
    trap, marker = set_trap(place / "stranger")
    photos = place / "photos" / "a"
    photos.mkdir(parents=True)
    for number in range(4):
        Image.fromarray(np.full((32, 32, 3), number * 40, dtype=np.uint8)).save(photos / f"{number}.png")
    with open_or_create_index(index, model) as opened:
        add_images(opened, load_embedder(model), images_from_folder(photos.parent), threads=1)
    query = np.zeros((32, 32, 3), dtype=np.uint8)
    score = Score()
    card = json.loads((model / "model.json").read_text())
    for number, text in enumerate(variants(card, count // 2, seed=seed, poison=(trap,))):
        (model / "model.json").write_bytes(with_identity(text))
        score.attack(f"card {number}", embed(model, query))
    whole = json.loads((index / "index.json").read_text())
    for number, text in enumerate(variants(whole, count - count // 2, seed=seed + 1, poison=(trap,))):
        (index / "index.json").write_bytes(text)
        score.attack(f"index {number}", lambda: Searcher(index).search(query, k=2))
    if marker.exists():
        score.bugs.append("code that a card named was run")
    return score


def embed(model: Path, query: np.ndarray) -> Callable[[], object]:
    """Return the attack: load the model and embed an image."""
    return lambda: load_embedder(model).embed(query)


def make_model(directory: Path) -> Path:
    """Write a small model."""
    shape = Architecture(trunk="conv4", trunk_options={"width": 4}, size=8)
    write_model(
        directory, build_network(shape), architecture=shape, preprocessing=Preprocessing(size=(32, 32))
    )
    return directory


def set_trap(folder: Path) -> tuple[str, Path]:
    """Write a repository whose code leaves a mark; return the name of its network, and the mark."""
    folder.mkdir()
    marker = folder / "it-ran"
    (folder / "hubconf.py").write_text(
        f"open({str(marker)!r}, 'w').close()\n"
        "def net(pretrained=False):\n    import torch\n    return torch.nn.Conv2d(3, 4, 1)\n"
    )
    return f"hub:{folder}/net", marker


def with_identity(text: bytes) -> bytes:
    """Return the card with the identity of its content, if it can be computed."""
    try:
        values = json.loads(text)
        values["identity"] = ""
        found = ModelCard.model_validate(values).compute_identity()
        return json.dumps({**values, "identity": found}).encode()
    except (ValueError, TypeError, RecursionError, ValidationError, LevelfieldError):
        return text


if __name__ == "__main__":
    raise SystemExit(main())
