"""Initial weights of a run's head, fitted to the training images of the fold and to no others."""

from __future__ import annotations

import numpy as np
import torch

from levelfield import models
from levelfield.core.seeds import numpy_generator, seed_for
from levelfield.data import Rows
from levelfield.records import RunSpec, digest
from levelfield.train._embed import embed
from levelfield.train._inputs import Inputs
from levelfield.train._ranks import broadcast_from_rank_zero, rank

# Enough images to estimate the directions of some thousand dimensions well.
MAX_IMAGES = 8192

_cached_directions: dict[str, models.PrincipalDirections] = {}


def initialize_head(
    spec: RunSpec, embedder: models.Embedder, inputs: Inputs, rows: Rows, *, device: str
) -> None:
    """Initialize the head of ``embedder`` as ``spec.head.init`` says, fitted to the training ``rows``.

    The fit uses features of the trunk before training, with the evaluation transform. It uses at most
    ``MAX_IMAGES`` rows, the same for all methods and seeds. Directions that copies of an image leave open are
    the same in every run: a method that kept its start equals the baseline.
    """
    if spec.head.init == "random":
        return
    drawn = _is_drawn(spec, embedder, rows)
    if rank() == 0:
        models.init_head(
            embedder.head.cpu(),
            _directions(spec, embedder, inputs, rows, device=device),
            init=spec.head.init,
            seed=seed_for(spec.seed, "head") if drawn else 0,
        )
    embedder.head.load_state_dict(broadcast_from_rank_zero(embedder.head.state_dict()))
    embedder.head.to(device)


def start_key(spec: RunSpec, embedder: models.Embedder, rows: Rows) -> str | None:
    """Return a key that runs share if their networks are equal before training; None if each is its own."""
    fitted = spec.head.kind == "linear" and spec.head.init != "random"
    return _key(spec) if fitted and not _is_drawn(spec, embedder, rows) else None


def _is_drawn(spec: RunSpec, embedder: models.Embedder, rows: Rows) -> bool:
    """Return whether some directions of the head are drawn from the seed of the run."""
    return spec.head.init == "orthogonal" or embedder.size > len(rows) - 1


def _directions(
    spec: RunSpec, embedder: models.Embedder, inputs: Inputs, rows: Rows, *, device: str
) -> models.PrincipalDirections:
    """Return the principal directions of the training rows' features; cached in the process."""
    key = _key(spec)
    if key not in _cached_directions:
        if len(rows) > MAX_IMAGES:
            generator = numpy_generator("head init", spec.fold)
            rows = np.sort(generator.choice(rows, MAX_IMAGES, replace=False))
        embedder.eval()
        forward = torch.nn.Identity() if spec.trunk.mode == "frozen" else embedder.features
        features = embed(forward, inputs, rows, batch_size=spec.training.eval_batch_size, device=device)
        if len(_cached_directions) >= 16:
            _cached_directions.clear()
        _cached_directions[key] = models.principal_directions(features, at_most=embedder.size)
    return _cached_directions[key]


def _key(spec: RunSpec) -> str:
    """Return the digest of everything that the directions depend on.

    A trunk that is trained from random weights depends on the seed of its run.
    """
    own_trunk = spec.trunk.weights == "none" and spec.trunk.mode not in ("frozen", "tail")
    parts = spec.model_dump(mode="json", include={"data", "fold", "trunk", "transform", "head"})
    return digest({**parts, "seed": spec.seed if own_trunk else None})
