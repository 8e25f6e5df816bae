"""The feature cache of frozen-trunk mode: pooled features, computed once and shared by all runs.

Features depend on (dataset, which of its images, trunk, weights, pooling, transform, views); a hash of
these names their folder. Killed at any moment, the computation goes on where it was; a part that is
damaged is computed again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FunctionType

import numpy as np
import torch
from torch import Tensor, nn

from levelfield.data._dataset import Images, Rows
from levelfield.data.transforms import Transform
from levelfield.errors import RunError, UsageError
from levelfield.files import lock
from levelfield.models._embedder import Embedder
from levelfield.models._feature_file import REMEDY, FeatureFile, Shape
from levelfield.models._weights import fingerprint
from levelfield.models.extraction import Extractor, Load
from levelfield.seeds import torch_generator

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class FeatureKey:
    """Everything that features depend on.

    Attributes:
        dataset: The dataset's fingerprint.
        part: Which of its images these are; see :func:`rows_key`.
        trunk: The trunk's name.
        weights: The hash of the trunk's and the pooling's tensors and of the input convention.
        transform: The transform of view 0.
        augment: The transform of the further views; empty if there are none.
        views: How many augmented views each image has besides view 0.
        seed: Of the augmentation.
        recipe: Counts up when a change of this code changes features.
    """

    dataset: str
    part: str
    trunk: str
    weights: str
    transform: str
    augment: str = ""
    views: int = 0
    seed: int = 0
    recipe: int = 1

    def digest(self) -> str:
        """The name of the features' folder."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:24]


class FeatureStore:
    """Features (N x F) of each view, read from a memory-mapped file.

    Attributes:
        path: The file.
        views: How many augmented views there are besides view 0.
        num_features: F.
    """

    def __init__(self, path: Path, shape: Shape) -> None:
        self.path = path
        self._shape = shape
        total = shape.views * shape.rows * shape.width
        # Not shared: writing to the tensor would not reach the file.
        mapped = torch.from_file(str(path), shared=False, size=total, dtype=torch.float32)
        self._features = mapped.view(shape.views, shape.rows, shape.width)
        self.views = shape.views - 1
        self.num_features = shape.width

    def __len__(self) -> int:
        return self._shape.rows

    def __reduce__(self) -> tuple[type[FeatureStore], tuple[Path, Shape]]:
        return FeatureStore, (self.path, self._shape)  # another process maps the file itself

    def batch(self, rows: Rows | Tensor, view: int = 0) -> Tensor:
        """The features (B x F) of ``rows``; view 0 is the plain one, 1..views are augmented."""
        return self._features[view].index_select(0, torch.as_tensor(rows))

    def all(self, view: int = 0) -> Tensor:
        """All features (N x F) of a view, mapped, not read."""
        return self._features[view]

    def augmented(self) -> Tensor:
        """All features of the augmented views (views x N x F), mapped, not read."""
        return self._features[1:]


def cached_features(
    folder: Path,
    *,
    embedder: Embedder,
    images: Images,
    dataset: str,
    part: str,
    transform: Transform,
    augment: Transform | None = None,
    views: int = 0,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = lambda done, total: None,
) -> FeatureStore:
    """The pooled features of ``images``, from ``folder`` if they are there, else computed and kept.

    Args:
        folder: Where all features are kept; each kind has a folder of its own in it.
        embedder: Its trunk and pooling make the features.
        images: The images, and no others.
        dataset: The dataset's fingerprint.
        part: Which of the dataset's images these are; see :func:`rows_key`.
        transform: Makes view 0; its ``repr`` must say all that it does, as a dataclass's does.
        augment: Makes the further views, each from a random stream of its own per image.
        views: How many further views there are.
        seed: Of the augmentation.
        threads: How many batches are under way at once; the number that PyTorch uses if None.
        progress: Called with the number of finished images and of all images, counting each view.

    Raises:
        RunError: The disk is full, or features are not finite. What was computed before is kept.
    """
    if len(images) == 0:
        raise UsageError("there are no images to compute features of; check the dataset and its split")
    if (augment is None) != (views == 0) or views < 0:
        raise UsageError(f"views is {views}; augmented views need a transform for them, and none without")
    key = FeatureKey(
        dataset=dataset,
        part=part,
        trunk=embedder.trunk.name,
        weights=_weights_key(embedder),
        transform=transform_key(transform),
        augment=transform_key(augment) if augment else "",
        views=views,
        seed=seed if views else 0,
    )
    shape = Shape(views=views + 1, rows=len(images), width=embedder.trunk.num_features)
    home = folder / key.digest()
    # One process at a time checks and computes; the others wait and then find the features there.
    with lock(home / ".lock", remedy=REMEDY):
        file = FeatureFile(home, shape=shape, about=asdict(key))
        missing = file.missing()
        total = shape.views * shape.rows
        done = total - sum(stop - start for _, start, stop in missing)
        progress(done, total)
        extractor = Extractor(embedder, threads=threads)
        for view, start, stop in missing:
            load = _loader(images, augment if augment and view else transform, seed=seed, view=view)
            features = extractor.features(np.arange(start, stop), load)
            file.write(view, start, _finite(features, start))
            done += stop - start
            progress(done, total)
    return FeatureStore(file.path, shape)


def rows_key(rows: Rows) -> str:
    """A short name for which rows of a dataset are meant; the order counts.

    Example:
        >>> rows_key(np.array([0, 1])) == rows_key(np.arange(2))
        True
    """
    return hashlib.sha256(np.ascontiguousarray(rows, dtype="<i8").tobytes()).hexdigest()[:16]


def transform_key(transform: Transform) -> str:
    """A text that says all that a transform does: its ``repr``, or the name of a function."""
    if isinstance(transform, FunctionType):
        text = f"{transform.__module__}.{transform.__qualname__}"
    else:
        text = repr(transform)
    if " at 0x" in text or "<" in text:
        raise UsageError(
            f"transform {text} does not say what it does, so its features cannot be kept; "
            "make it a dataclass or a function of a module"
        )
    return text


def _weights_key(embedder: Embedder) -> str:
    tensors = fingerprint(nn.Sequential(embedder.trunk, embedder.pooling))
    text = json.dumps([tensors, asdict(embedder.trunk.inputs), type(embedder.pooling).__name__])
    return hashlib.sha256(text.encode()).hexdigest()


def _loader(images: Images, transform: Transform, *, seed: int, view: int) -> Load:
    """Reads and transforms rows; each row has a random stream of its own, whatever batch it comes in."""

    def load(rows: Rows) -> Tensor:
        return torch.cat(
            [
                transform([images.read(int(row))], torch_generator("features", seed, view, int(row)))
                for row in rows
            ]
        )

    return load


def _finite(features: Tensor, start: int) -> Tensor:
    bad = torch.nonzero(~features.isfinite().all(1))
    if len(bad):
        raise RunError(
            f"the trunk gives features that are not finite for image {start + int(bad[0])}; "
            "check its weights and that image"
        )
    return features
