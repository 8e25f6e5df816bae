"""Google Landmarks v2: millions of images of landmarks, with separate queries and index."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np

from levelfield.core.errors import UsageError
from levelfield.data import register
from levelfield.data._dataset import GALLERY, QUERY, Dataset, Download, Rows
from levelfield.data._listing import class_ids, from_files, parse_integer

_BUCKET = "https://s3.amazonaws.com/google-landmark"
_ARCHIVES = {"train": 500, "index": 100, "test": 20}
_TABLES = (
    "metadata/train.csv",
    "metadata/train_clean.csv",
    "metadata/index_image_to_landmark.csv",
    "ground_truth/retrieval_solution_v2.1.csv",
    "ground_truth/recognition_solution_v2.1.csv",
)


def _downloads() -> tuple[Download, ...]:
    tables = [
        Download(urls=(f"{_BUCKET}/{table}",), file=f"gldv2/{Path(table).name}", part="tables")
        for table in _TABLES
    ]
    archives = [
        Download(
            urls=(f"{_BUCKET}/{part}/images_{number:03}.tar",),
            file=f"gldv2/archives/{part}/images_{number:03}.tar",
            md5_url=f"{_BUCKET}/md5sum/{part}/md5.images_{number:03}.txt",
            into=f"gldv2/{part}",
            part=part,
        )
        for part, count in _ARCHIVES.items()
        for number in range(count)
    ]
    return (*tables, *archives)


@register(
    "gldv2",
    paper="Google Landmarks Dataset v2",
    year=2020,
    license="Annotations CC BY 4.0; training images CC BY; index and query images each under its own license",
    source="https://github.com/cvdfoundation/google-landmark",
    citation="T. Weyand, A. Araujo, B. Cao, J. Sim: Google Landmarks Dataset v2 - A Large-Scale Benchmark "
    "for Instance-Level Recognition and Retrieval. CVPR 2020.",
    downloads=_downloads(),
    metrics=("map_at_100", "precision_at_1"),
)
def gldv2(
    *,
    root: str = "data",
    train: Literal["clean", "all"] = "clean",
    usage: Literal["both", "public", "private"] = "both",
) -> Dataset:
    """Google Landmarks v2: training images, and test queries with a separate index.

    ``train`` selects the cleaned training list (1.6 million images of 81,313 landmarks) or the full list.
    ``usage`` selects the queries of the public or the private leaderboard; queries that the solution file
    ignores are left out. Landmark numbers of the training set and the index are unrelated. So they are
    separate classes: first the training landmarks, then those of the index. Scores use the images that the
    solution file lists as relevant to each query, as the challenge does. A query's class, the most frequent
    landmark among them, is only the unit of the statistics.

    ``root`` is the folder with ``train``, ``index`` and ``test``, or its parent, which holds it as ``gldv2``.
    The tables are in that folder or in one of the three. Many landmarks have one training image: use
    ``min_images=1`` with split plans.
    """
    folder = next((f for f in (Path(root), Path(root) / "gldv2") if (f / "index").is_dir()), None)
    if folder is None:
        raise UsageError(
            f"gldv2: no folder index in {root} or {Path(root) / 'gldv2'}; "
            f"run `levelfield data fetch gldv2 --root {root}`, or set root to the folder of the dataset"
        )
    trained = _read_training(folder, train)
    index = {
        r["id"]: _landmark(r, folder)
        for r in _read_table(folder, "index_image_to_landmark.csv", "id", "landmark_id")
    }
    queries, listed = _read_queries(folder, index, usage)
    train_order, index_order = sorted(set(trained.values())), sorted(set(index.values()))
    labels = class_ids(list(trained.values()), train_order)
    labels += [len(train_order) + n for n in class_ids([*index.values(), *queries.values()], index_order)]
    parts = (("train", trained, 0), ("index", index, GALLERY), ("test", queries, QUERY))
    roles = np.repeat([role for *_, role in parts], [len(ids) for _, ids, _ in parts]).astype(np.int8)
    return from_files(
        "gldv2",
        folder,
        [_image(part, image, folder) for part, ids, _ in parts for image in ids],
        labels,
        [f"train {n}" for n in train_order] + [f"index {n}" for n in index_order],
        is_test=roles > 0,
        roles=roles,
        official=True,
        relevant=_pairs(listed, index, before=len(trained)),
    )


def _image(part: str, image: str, folder: Path) -> str:
    """Return the path of an image; its id cannot lead to another folder."""
    if len(image) < 3 or set(image) & set("./\\\0"):
        raise UsageError(f"the tables in {folder} have the image id {image[:60]!r}; fetch them again")
    return f"{part}/{image[0]}/{image[1]}/{image[2]}/{image}.jpg"


def _pairs(listed: dict[str, list[str]], index: dict[str, int], *, before: int) -> Rows:
    """Return pairs of rows: queries come after the index, which comes after ``before`` training images."""
    row = {image: before + number for number, image in enumerate(index)}
    first = before + len(index)
    pairs = [(first + n, row[image]) for n, images in enumerate(listed.values()) for image in images]
    return np.array(pairs, dtype=np.int64)


def _read_training(folder: Path, edition: str) -> dict[str, int]:
    """Return the landmark of each training image id."""
    if edition == "all":
        return {
            row["id"]: _landmark(row, folder) for row in _read_table(folder, "train.csv", "id", "landmark_id")
        }
    table = _read_table(folder, "train_clean.csv", "landmark_id", "images")
    return {image: _landmark(row, folder) for row in table for image in row["images"].split()}


def _read_queries(
    folder: Path, index: dict[str, int], usage: str
) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Return the most frequent landmark of each query id, and its relevant index images."""
    queries: dict[str, int] = {}
    listed: dict[str, list[str]] = {}
    for row in _read_table(folder, "retrieval_solution_v2.1.csv", "id", "images", "Usage"):
        if row["Usage"].lower() not in ({"public", "private"} if usage == "both" else {usage}):
            continue
        images = list(dict.fromkeys(row["images"].split()))
        missing = [image for image in images if image not in index]
        if missing or not images:
            what = f"relevant image {missing[0]} of query {row['id']} is not in the index list"
            what = what if missing else f"query {row['id']} has no relevant image"
            raise UsageError(f"gldv2: {what}; fetch the tables again")
        counts = Counter(index[image] for image in images)
        queries[row["id"]] = min(counts, key=lambda landmark: (-counts[landmark], landmark))
        listed[row["id"]] = images
    if not queries:
        raise UsageError(
            f'gldv2: the solution file has no queries of usage "{usage}"; fetch the tables again'
        )
    return queries, listed


def _read_table(folder: Path, name: str, *columns: str) -> list[dict[str, str]]:
    candidates = [folder / below / name for below in (".", "metadata", "train", "index", "test")]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if file is None:
        raise UsageError(f"gldv2: {name} is not in {folder}; run `levelfield data fetch gldv2 --part tables`")
    with file.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    if not rows or any(row.get(column) is None for row in rows for column in columns):
        raise UsageError(f"gldv2: {file} is empty or damaged; fetch the tables again")
    return rows


def _landmark(row: dict[str, str], folder: Path) -> int:
    return parse_integer(row["landmark_id"], folder)
