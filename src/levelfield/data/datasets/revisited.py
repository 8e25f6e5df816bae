"""Revisited Oxford and Paris: buildings in photos, with easy, hard and ignored images of each query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from levelfield.core.errors import UsageError
from levelfield.data import register
from levelfield.data._dataset import Dataset
from levelfield.data._listing import find_root
from levelfield.data.datasets._plain_pickle import read_plain_pickle
from levelfield.data.listed_queries import ListedQuery, listed_dataset

Difficulty = Literal["easy", "medium", "hard"]
# Lists that are relevant and lists that are ignored. The easy images are too easy for the hard setup, and the
# hard ones too hard for the easy setup.
SETUPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "easy": (("easy",), ("junk", "hard")),
    "medium": (("easy", "hard"), ("junk",)),
    "hard": (("hard",), ("junk", "easy")),
}
# A short pickle can name one long list many times; the real files list some ten thousand images.
MAX_QUERIES, MAX_LISTED, MAX_NAME = 100_000, 2_000_000, 250
METRICS = ("map_trapezoid", "mp_at_1", "mp_at_5", "mp_at_10")  # of the official evaluation
_CITATION = (
    "F. Radenovic, A. Iscen, G. Tolias, Y. Avrithis, O. Chum: Revisiting Oxford and Paris: Large-Scale Image "
    "Retrieval Benchmarking. CVPR 2018."
)
_SOURCE = "http://cmp.felk.cvut.cz/revisitop/"
_MANUAL = (
    "Put the images of {0} into {1}/jpg, and gnd_{1}.pkl, the revisited ground truth, into {1}; "
    "http://cmp.felk.cvut.cz/revisitop/ links to both."
)
_LICENSE = "Images each under its own license (Flickr); ground truth for research"


@register(
    "roxford5k",
    paper="Revisiting Oxford and Paris",
    year=2018,
    license=_LICENSE,
    source=_SOURCE,
    citation=_CITATION,
    manual_download=_MANUAL.format("Oxford Buildings", "roxford5k"),
    metrics=METRICS,
)
def roxford5k(*, root: str = "data", difficulty: Difficulty = "medium", train: str | None = None) -> Dataset:
    """Revisited Oxford: 70 queries of 11 buildings, and 4,993 images to search.

    ``difficulty`` selects the relevant images. "easy" ignores hard and junk images, "medium" ignores junk
    images, "hard" ignores easy and junk images. Queries are cut to their boxes, and buildings are the unit of
    the statistics. ``train`` is a folder of other images to train on, one subfolder per class; without it
    there are test images only. ``root`` is the folder with ``gnd_roxford5k.pkl`` and ``jpg``, or its parent.
    """
    return _read("roxford5k", root, difficulty, train)


@register(
    "rparis6k",
    paper="Revisiting Oxford and Paris",
    year=2018,
    license=_LICENSE,
    source=_SOURCE,
    citation=_CITATION,
    manual_download=_MANUAL.format("Paris", "rparis6k"),
    metrics=METRICS,
)
def rparis6k(*, root: str = "data", difficulty: Difficulty = "medium", train: str | None = None) -> Dataset:
    """Revisited Paris: 70 queries of 11 buildings, and 6,322 images to search.

    The options are those of ``roxford5k``.
    """
    return _read("rparis6k", root, difficulty, train)


def _read(name: str, root: str, difficulty: str, train: str | None) -> Dataset:
    if difficulty not in SETUPS:
        raise UsageError(f'{name}: unknown difficulty "{difficulty}"; choose easy, medium or hard')
    file_name = f"gnd_{name}.pkl"
    folder = find_root(name, root, folder=name, marker=file_name)
    file = folder / file_name
    content = read_plain_pickle(file)
    if not isinstance(content, dict) or not {"gnd", "imlist", "qimlist"} <= content.keys():
        raise UsageError(f"{file} has no gnd, imlist and qimlist; fetch it again")
    searched = [_image(text, file) for text in _distinct(_sequence(content["imlist"], file), file)]
    asked = [_image(text, file) for text in _sequence(content["qimlist"], file, at_most=MAX_QUERIES)]
    truth = _sequence(content["gnd"], file, at_most=MAX_QUERIES)
    if len(truth) != len(asked):
        raise UsageError(f"{file} has lists for {len(truth)} queries but {len(asked)} names; fetch it again")
    if sum(map(_listed, truth)) > MAX_LISTED:
        raise UsageError(f"{file} lists more than {MAX_LISTED:,} images for its queries; fetch it again")
    queries = [
        _query(image, lists, searched, difficulty, file) for image, lists in zip(asked, truth, strict=True)
    ]
    empty = sum(not query.relevant for query in queries)
    notes = [f"{empty} queries have no relevant image in the {difficulty} setup and are left out"]
    return listed_dataset(
        name,
        folder,
        searched=searched,
        queries=queries,
        train=train,
        notes=notes if empty else (),
        official=True,
    )


def _query(image: str, lists: Any, searched: Sequence[str], difficulty: str, file: Path) -> ListedQuery:
    if not isinstance(lists, dict) or not {"easy", "hard", "junk", "bbx"} <= lists.keys():
        raise UsageError(f"{file}: query {image} has no easy, hard, junk and bbx; fetch it again")
    kept, ignored = (
        tuple(searched[row] for each in names for row in _rows(lists[each], len(searched), image, file))
        for names in SETUPS[difficulty]
    )
    box = _sequence(lists["bbx"], file, at_most=4)
    if len(box) != 4 or not all(isinstance(edge, (int, float)) and abs(edge) < 1e6 for edge in box):
        raise UsageError(f"{file}: query {image} has the box {box}; it must be four numbers")
    left, top, right, bottom = (float(edge) for edge in box)
    return ListedQuery(
        image=image,
        relevant=tuple(dict.fromkeys(kept)),
        ignored=tuple(dict.fromkeys(ignored)),
        group=Path(image).stem.rpartition("_")[0] or Path(image).stem,
        box=(left, top, right, bottom),
    )


def _rows(listed: Any, count: int, image: str, file: Path) -> list[int]:
    rows = _sequence(listed, file)
    wrong = [row for row in rows if not _is_row(row, count)]
    if wrong:
        raise UsageError(f"{file}: query {image} lists image {wrong[0]} of {count}; fetch it again")
    return [int(row) for row in rows]


def _is_row(row: Any, count: int) -> bool:
    return (
        isinstance(row, (int, float)) and not isinstance(row, bool) and 0 <= row < count and row == int(row)
    )


def _listed(lists: Any) -> int:
    """Return the number of images that the lists of a query name."""
    return (
        sum(len(each) for each in lists.values() if hasattr(each, "__len__"))
        if isinstance(lists, dict)
        else 0
    )


def _distinct(names: list[Any], file: Path) -> list[Any]:
    """Return names of images; refuse a list that has one many times before any is copied."""
    try:
        found = len(set(names))
    except TypeError:
        found = 0
    if found < len(names):
        raise UsageError(f"{file}: an image is listed twice in imlist; fetch it again")
    return names


def _sequence(value: Any, file: Path, *, at_most: int | None = None) -> list[Any]:
    """Return a list, a tuple or an array of numbers as a list."""
    if isinstance(value, (str, bytes, dict)) or not hasattr(value, "__len__"):
        raise UsageError(f"{file} holds a {type(value).__name__} in place of a list; fetch it again")
    if at_most is not None and len(value) > at_most:
        raise UsageError(f"{file} has a list of {len(value):,} entries; fetch it again")
    return list(value)


def _image(text: Any, file: Path) -> str:
    """Return the path of an image; a name cannot lead to another folder."""
    name = text.decode("latin1") if isinstance(text, bytes) else text
    if (
        not isinstance(name, str)
        or not 0 < len(name) <= MAX_NAME
        or set(name) & set("/\\\0")
        or name.startswith(".")
    ):
        raise UsageError(
            f"{file} names the image {str(name)[:60]!r}, which is not a file name; fetch it again"
        )
    return f"jpg/{name}.jpg"
