"""The feature cache: what a frozen network gives, computed once and shared by all runs.

That is the pooled features of a frozen trunk, or the activations at the cut of a trunk whose upper part is
trained.

A :class:`levelfield.records.FeatureIdentity` holds everything that features depend on; its hash names their
folder. It is taken from the very objects that features are computed with, so that no caller can name them
wrongly. Killed at any moment, the computation goes on where it was; a part that is damaged is computed again.
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

from levelfield.data import Dataset, Images, Rows, transforms
from levelfield.data.transforms import Transform
from levelfield.errors import RunError, UsageError
from levelfield.files import lock
from levelfield.models._embedder import Embedder
from levelfield.models._feature_file import REMEDY, FeatureFile, Shape
from levelfield.models._weights import fingerprint
from levelfield.models.extraction import Extractor, FeatureSource, Load, feature_network
from levelfield.records import FeatureIdentity, PluginIdentity, feature_id, rows_digest
from levelfield.seeds import torch_generator

Progress = Callable[[int, int], None]


class FeatureStore:
    """Features (N x F), or activations (N x ...), of each view, read from a memory-mapped file.

    Attributes:
        path: The file.
        views: How many augmented views there are besides view 0.
        item: The shape of one image's features.
    """

    def __init__(self, path: Path, shape: Shape) -> None:
        self.path = path
        self._shape = shape
        size = path.stat().st_size if path.exists() else 0
        if size < shape.bytes:  # reading beyond the end of a mapped file would end the process
            raise RunError(
                f"{path} has {size} of {shape.bytes} bytes; "
                "give the same command again, what is missing is computed"
            )
        values = shape.views * shape.rows * math.prod(shape.item)
        # Not shared: writing to the tensor would not reach the file.
        mapped = torch.from_file(str(path), shared=False, size=values, dtype=getattr(torch, shape.dtype))
        self._features = mapped.view(shape.views, shape.rows, *shape.item)
        self.views = shape.views - 1
        self.item = shape.item

    def __len__(self) -> int:
        return self._shape.rows

    def __reduce__(self) -> tuple[type[FeatureStore], tuple[Path, Shape]]:
        return FeatureStore, (self.path, self._shape)  # another process maps the file itself

    def batch(self, rows: Rows | Tensor, view: int = 0) -> Tensor:
        """The features (B x item) of ``rows``; view 0 is the plain one, 1..views are augmented."""
        return self._features[view].index_select(0, torch.as_tensor(rows))

    def all(self, view: int = 0) -> Tensor:
        """All features (N x item) of a view, mapped, not read."""
        return self._features[view]

    def augmented(self) -> Tensor:
        """All features of the augmented views (views x N x item), mapped, not read."""
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
    """What the features are called that ``cached_features`` gives for the same arguments."""
    trunk = source.trunk
    if trunk.made_from is None:
        raise UsageError(
            f"trunk {trunk.name} was not made by levelfield.models.create_trunk, so it is not known which "
            "options it has and its features cannot be kept; register it and create it by its name"
        )
    options = dict(transform_options or {})
    numbers = np.arange(len(dataset)) if dataset.row_numbers is None else dataset.row_numbers
    return FeatureIdentity(
        dataset=dataset.made_from or PluginIdentity(name=dataset.name),
        fingerprint=dataset.fingerprint,
        rows=rows_digest(numbers),
        trunk=trunk.made_from,
        inputs=repr(trunk.inputs),
        weights=_hash_of_network(source),
        pooling=repr(source.pooling) if isinstance(source, Embedder) else "",
        cut="" if isinstance(source, Embedder) else source.cut,
        dtype=_dtype(source),
        transform=PluginIdentity(
            name=transform, options=options, source=transforms.registry[transform].source
        ),
        transform_texts=tuple(_text_of(each) for each in _transforms(transform, options, views=views)),
        views=views,
        seed=seed if views else 0,
        computed_with=_computed_with(trunk.gain.device),
    )


def cached_features(
    folder: Path,
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
    """The features of a dataset's images, from ``folder`` if they are there, else computed and kept.

    Args:
        folder: Where all features are kept; each kind has a folder of its own in it.
        source: An embedder, whose trunk and pooling make the features (kept as float32), or the lower part of
            a cut trunk, which makes activations (kept as float16).
        dataset: The images, and no others: the whole dataset, or a part of it from ``select``.
        transform: The name of a transform. View 0 is its evaluation twin's.
        transform_options: The transform's options.
        views: How many further views there are, made by the transform as in training, each from a random
            stream of its own per image.
        seed: Of the further views.
        threads: How many batches are under way at once; the number that PyTorch uses if None.
        progress: Called with the number of finished images and of all images, counting each view.

    Raises:
        RunError: The disk is full, or features are not finite. What was computed before is kept.
    """
    if len(dataset) == 0:
        raise UsageError("there are no images to compute features of; check the dataset and its split")
    if views < 0:
        raise UsageError(f"views is {views}; it is a number of augmented views, 0 for none")
    options = dict(transform_options or {})
    identity = feature_identity(
        source, dataset, transform=transform, transform_options=options, views=views, seed=seed
    )
    plain, *augmenting = _transforms(transform, options, views=views)
    load_first = _loader(dataset.images, plain, seed=seed, view=0)
    shape = Shape(
        views=views + 1, rows=len(dataset), item=_item_shape(source, load_first), dtype=_dtype(source)
    )
    home = folder / feature_id(identity)
    # One process at a time checks and computes; the others wait and then find the features there.
    with lock(home / ".lock", remedy=REMEDY):
        file = FeatureFile(home, shape=shape, identity=identity)
        missing = file.missing()
        total = shape.views * shape.rows
        done = total - sum(stop - start for _, start, stop in missing)
        progress(done, total)
        extractor = Extractor(source, threads=threads)
        for view, start, stop in missing:
            load = _loader(dataset.images, augmenting[0] if view else plain, seed=seed, view=view)
            features = extractor.features(np.arange(start, stop), load)
            file.write(view, start, _checked(features.to(getattr(torch, shape.dtype)), start))
            done += stop - start
            progress(done, total)
        return FeatureStore(file.path, shape)


def _transforms(name: str, options: Mapping[str, Any], *, views: int) -> list[Transform]:
    """The transform of the plain view, and that of the augmented ones if there are any."""
    return [transforms.create(name, train=train, **options) for train in (False, True)[: 2 if views else 1]]


def _text_of(transform: Transform) -> str:
    """How a transform prints itself, if that does not change from one process to the next."""
    text = repr(transform)
    return getattr(transform, "__qualname__", type(transform).__qualname__) if " at 0x" in text else text


def _hash_of_network(source: FeatureSource) -> str:
    """Of all tensors of the network, and of the layers as they print themselves."""
    network = feature_network(source)
    return hashlib.sha256(f"{fingerprint(network)} {network}".encode()).hexdigest()


def _dtype(source: FeatureSource) -> str:
    """Vectors are small; maps are not, and training from float16 ones loses nothing that can be measured."""
    return "float32" if isinstance(source, Embedder) else "float16"


def kept_bytes(source: FeatureSource, item: tuple[int, ...]) -> int:
    """How much of the disk one image and view takes, if its features have the shape ``item``."""
    return Shape(views=1, rows=1, item=item, dtype=_dtype(source)).bytes


def _item_shape(source: FeatureSource, load: Load) -> tuple[int, ...]:
    """The shape of one image's features."""
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


def _checked(features: Tensor, start: int) -> Tensor:
    bad = torch.nonzero(~features.flatten(1).isfinite().all(1))
    if len(bad):
        raise RunError(
            f"the trunk gives features that are not finite for image {start + int(bad[0])}, or too large for "
            f"{str(features.dtype).removeprefix('torch.')}; check its weights and that image"
        )
    return features
