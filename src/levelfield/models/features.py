"""Feature cache: outputs of frozen networks, computed once and shared by all runs.

The outputs are pooled features of a frozen trunk, or activations at the cut of a trunk whose upper part is
trained.

A :class:`levelfield.records.FeatureIdentity` holds everything that features depend on. Its digest is the name
of their directory. It is read from the objects that compute the features, so that it cannot be wrong. An
interrupted computation is resumed, and damaged shards are computed again.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield.core.errors import RunError, UsageError
from levelfield.core.files import lock
from levelfield.core.seeds import torch_generator
from levelfield.data import Dataset, Images, Rows, transforms
from levelfield.data.transforms import Transform
from levelfield.models._embedder import Embedder
from levelfield.models._feature_file import REMEDY, FeatureFile, FeatureShape
from levelfield.models._weights import fingerprint
from levelfield.models.extraction import FeatureExtractor, FeatureSource, LoadImages, feature_network
from levelfield.records import FeatureIdentity, PluginIdentity, feature_id, rows_digest

Progress = Callable[[int, int], None]


class FeatureStore:
    """Features (N x F), or activations (N x ...), of each view, read from a memory-mapped file.

    Attributes:
        path: Feature file.
        views: Number of augmented views, besides view 0.
        item: Shape of one image's features.
    """

    def __init__(self, path: Path, shape: FeatureShape) -> None:
        self.path = path
        self._shape = shape
        size = path.stat().st_size if path.exists() else 0
        if size < shape.bytes:  # reading past the end of a mapped file would crash the process
            raise RunError(
                f"{path} has {size} of {shape.bytes} bytes; "
                "run the same command again to compute the missing features"
            )
        values = shape.views * shape.rows * math.prod(shape.item)
        # Not shared: writes to the tensor do not change the file.
        mapped = torch.from_file(str(path), shared=False, size=values, dtype=getattr(torch, shape.dtype))
        self._features = mapped.view(shape.views, shape.rows, *shape.item)
        self.views = shape.views - 1
        self.item = shape.item

    def __len__(self) -> int:
        return self._shape.rows

    def __reduce__(self) -> tuple[type[FeatureStore], tuple[Path, FeatureShape]]:
        return FeatureStore, (self.path, self._shape)  # another process maps the file again

    def batch(self, rows: Rows | Tensor, view: int = 0) -> Tensor:
        """Return the features (B x item) of ``rows``; view 0 is not augmented, 1..views are."""
        return self._features[view].index_select(0, torch.as_tensor(rows))

    def all(self, view: int = 0) -> Tensor:
        """Return all features (N x item) of a view, memory-mapped."""
        return self._features[view]

    def augmented(self) -> Tensor:
        """Return all features of the augmented views (views x N x item), memory-mapped."""
        return self._features[1:]


def feature_identity(
    source: FeatureSource,
    dataset: Dataset,
    *,
    transform: str = "none",
    transform_options: Mapping[str, Any] | None = None,
    views: int = 0,
    seed: int = 0,
) -> FeatureIdentity:
    """Return the identity of the features that ``cached_features`` returns for the same arguments."""
    trunk = source.trunk
    if trunk.made_from is None:
        raise UsageError(
            f"trunk {trunk.name} was not created by levelfield.models.create_trunk: its options are unknown "
            "and its features cannot be cached; register it and create it by its name"
        )
    options = dict(transform_options or {})
    numbers = np.arange(len(dataset)) if dataset.row_numbers is None else dataset.row_numbers
    return FeatureIdentity(
        dataset=dataset.made_from or PluginIdentity(name=dataset.name),
        fingerprint=dataset.fingerprint,
        content=dataset.content,
        rows=rows_digest(numbers),
        trunk=trunk.made_from,
        inputs=repr(trunk.inputs),
        weights=_network_digest(source),
        pooling=repr(source.pooling) if isinstance(source, Embedder) else "",
        cut="" if isinstance(source, Embedder) else source.cut,
        dtype=_dtype(source),
        transform=PluginIdentity(
            name=transform, options=options, source=transforms.registry[transform].source
        ),
        transform_texts=tuple(_stable_repr(each) for each in _transforms(transform, options, views=views)),
        views=views,
        seed=seed if views else 0,
        computed_with=_computed_with(trunk.gain.device),
    )


def cached_features(
    directory: Path,
    *,
    source: FeatureSource,
    dataset: Dataset,
    transform: str = "none",
    transform_options: Mapping[str, Any] | None = None,
    views: int = 0,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = lambda done, total: None,
) -> FeatureStore:
    """Return the features of a dataset's images, from the cache in ``directory`` or computed.

    Args:
        directory: Feature cache; each identity has its own subdirectory.
        source: Embedder, whose trunk and pooling compute features (stored as float32), or the lower part of a
            cut trunk, which computes activations (stored as float16).
        dataset: Images to compute: the whole dataset, or a part of it from ``select``.
        transform: Name of a transform. View 0 uses its evaluation transform.
        transform_options: Options of the transform.
        views: Number of augmented views besides view 0. They use the training transform, with a separate
            random stream for each image and view.
        seed: Seed of the augmented views.
        threads: Number of batches computed at once. Defaults to the number of threads of PyTorch.
        progress: Called with the number of finished images and the total, counting each view.

    Raises:
        RunError: The disk is full, or features are not finite. Finished shards are kept.
    """
    if len(dataset) == 0:
        raise UsageError("the dataset has no images; check the dataset and its split")
    if views < 0:
        raise UsageError(f"views is {views}; give the number of augmented views, 0 for none")
    options = dict(transform_options or {})
    identity = feature_identity(
        source, dataset, transform=transform, transform_options=options, views=views, seed=seed
    )
    plain, *augmenting = _transforms(transform, options, views=views)
    load_first = _loader(dataset.images, plain, seed=seed, view=0)
    shape = FeatureShape(
        views=views + 1, rows=len(dataset), item=_item_shape(source, load_first), dtype=_dtype(source)
    )
    home = directory / feature_id(identity)
    # One process checks and computes; the others wait and then find the features.
    with lock(home / ".lock", remedy=REMEDY):
        file = FeatureFile(home, shape=shape, identity=identity)
        missing = file.missing()
        total = shape.views * shape.rows
        done = total - sum(stop - start for _, start, stop in missing)
        progress(done, total)
        extractor = FeatureExtractor(source, threads=threads)
        for view, start, stop in missing:
            load = _loader(dataset.images, augmenting[0] if view else plain, seed=seed, view=view)
            features = extractor.features(np.arange(start, stop), load)
            file.write(view, start, _check_finite(features.to(getattr(torch, shape.dtype)), start))
            done += stop - start
            progress(done, total)
        return FeatureStore(file.path, shape)


def _transforms(name: str, options: Mapping[str, Any], *, views: int) -> list[Transform]:
    """Return the transform of view 0, and that of the augmented views if there are any."""
    return [transforms.create(name, train=train, **options) for train in (False, True)[: 2 if views else 1]]


def _stable_repr(transform: Transform) -> str:
    """Return the repr of a transform, or its qualified name if the repr contains a memory address."""
    text = repr(transform)
    return getattr(transform, "__qualname__", type(transform).__qualname__) if " at 0x" in text else text


def _network_digest(source: FeatureSource) -> str:
    """Return the digest of all tensors of the network and of its printed layers."""
    network = feature_network(source)
    return hashlib.sha256(f"{fingerprint(network)} {network}".encode()).hexdigest()


def _dtype(source: FeatureSource) -> str:
    """Return float32 for features and float16 for activations, which are larger."""
    return "float32" if isinstance(source, Embedder) else "float16"


def bytes_per_image(source: FeatureSource, item: tuple[int, ...]) -> int:
    """Return the bytes on disk of one image and view, for features of shape ``item``."""
    return FeatureShape(views=1, rows=1, item=item, dtype=_dtype(source)).bytes


def _item_shape(source: FeatureSource, load: LoadImages) -> tuple[int, ...]:
    """Return the shape of one image's features."""
    if isinstance(source, Embedder):
        return (source.trunk.num_features,)
    with torch.inference_mode():
        activation = source(load(np.arange(1)).to(source.trunk.gain.device))
    return tuple(activation.shape[1:])


def _computed_with(device: torch.device) -> str:
    versions = [f"{package} {metadata.version(package)}" for package in ("torch", "torchvision", "pillow")]
    processor = (
        f"cpu {torch.backends.cpu.get_cpu_capability()}"
        if device.type == "cpu"
        else f"{device.type} {torch.cuda.get_device_name(device) if device.type == 'cuda' else ''}"
    )
    return ", ".join([*versions, processor.strip()])


def _loader(images: Images, transform: Transform, *, seed: int, view: int) -> LoadImages:
    """Return a function that reads and transforms rows, with a separate random stream for each row."""

    def load(rows: Rows) -> Tensor:
        return torch.cat(
            [
                transform([images.read(int(row))], torch_generator("features", seed, view, int(row)))
                for row in rows
            ]
        )

    return load


def _check_finite(features: Tensor, start: int) -> Tensor:
    bad = torch.nonzero(~features.flatten(1).isfinite().all(1))
    if len(bad):
        raise RunError(
            f"features of image {start + int(bad[0])} are not finite, or too large for "
            f"{str(features.dtype).removeprefix('torch.')}; check the weights and the image"
        )
    return features
