"""The first weights of a run's head: fitted to the fold's training images, never to others."""

from __future__ import annotations

import numpy as np
import torch

from levelfield import models
from levelfield.data import Rows
from levelfield.records import RunSpec, digest
from levelfield.seeds import numpy_generator, seed_for
from levelfield.train._embed import embed
from levelfield.train._inputs import Inputs
from levelfield.train._ranks import from_chief, rank

# Directions of some thousand dimensions are well known after so many images.
LARGEST_SAMPLE = 8192

_known: dict[str, models.Directions] = {}


def start_head(spec: RunSpec, embedder: models.Embedder, inputs: Inputs, rows: Rows, *, device: str) -> None:
    """Give ``embedder`` the head that ``spec.head.init`` asks for, fitted to the training ``rows``.

    Features are those of the trunk before its training, with the evaluation transform. Of more than
    ``LARGEST_SAMPLE`` rows a sample is taken, the same for all methods and seeds.
    """
    if spec.head.init == "random":
        return
    if rank() == 0:
        models.start_head(
            embedder.head.cpu(),
            _directions(spec, embedder, inputs, rows, device=device),
            init=spec.head.init,
            seed=seed_for(spec.seed, "head"),
        )
    embedder.head.load_state_dict(from_chief(embedder.head.state_dict()))
    embedder.head.to(device)


def _directions(
    spec: RunSpec, embedder: models.Embedder, inputs: Inputs, rows: Rows, *, device: str
) -> models.Directions:
    """The principal directions of the training rows' features; runs of one process share them."""
    key = _key(spec)
    if key not in _known:
        if len(rows) > LARGEST_SAMPLE:
            generator = numpy_generator("head init", spec.fold)
            rows = np.sort(generator.choice(rows, LARGEST_SAMPLE, replace=False))
        embedder.eval()
        forward = torch.nn.Identity() if spec.trunk.mode == "frozen" else embedder.features
        features = embed(forward, inputs, rows, batch_size=spec.training.eval_batch_size, device=device)
        if len(_known) >= 16:
            _known.clear()
        _known[key] = models.principal_directions(features, at_most=embedder.size)
    return _known[key]


def _key(spec: RunSpec) -> str:
    """All that the directions depend on. A trunk without weights that is trained has its run's own seed."""
    own_trunk = spec.trunk.weights == "none" and spec.trunk.mode not in ("frozen", "tail")
    parts = spec.model_dump(mode="json", include={"data", "fold", "trunk", "transform", "head"})
    return digest({**parts, "seed": spec.seed if own_trunk else None})
