"""CUB, Cars, SOP, In-Shop and Landmarks: read from tiny copies of their official layouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.oracles import layouts

from levelfield.core.errors import UsageError
from levelfield.data import load, registry, splits
from levelfield.retrieval.scoring import score_concatenation

OFFICIAL: dict[str, Callable[[Path], Path]] = {
    "cub200": layouts.cub200,
    "cars196": layouts.cars196,
    "flowers102": layouts.flowers102,
    "sop": layouts.sop,
}
ALL: dict[str, Callable[[Path], Path]] = {**OFFICIAL, "inshop": layouts.inshop, "gldv2": layouts.gldv2}


@pytest.mark.parametrize("name", ALL)
def test_the_folder_or_the_one_above_it_can_be_given(name: str, tmp_path: Path) -> None:
    folder = ALL[name](tmp_path)
    above, itself = load(name, root=str(tmp_path)), load(name, root=str(folder))
    assert above.fingerprint == itself.fingerprint
    image = above.images.read(len(above) - 1)
    assert image.shape == (3, 10, 12) and str(image.dtype) == "torch.uint8"


@pytest.mark.parametrize("name", ALL)
def test_a_copy_elsewhere_has_the_same_fingerprint_and_another_edition_another(
    name: str, tmp_path: Path
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    ALL[name](one)
    folder = ALL[name](two)
    first = load(name, root=str(one))
    assert load(name, root=str(two)).fingerprint == first.fingerprint
    file = next(iter(sorted(folder.rglob("*.[jJ][pP][gG]"))))
    file.write_bytes(file.read_bytes() + b"more")
    assert load(name, root=str(two)).fingerprint != first.fingerprint


@pytest.mark.parametrize("name", ALL)
def test_a_missing_dataset_or_file_is_named_with_the_remedy(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"levelfield data fetch {name} --root"):
        load(name, root=str(tmp_path / "nowhere"))
    folder = ALL[name](tmp_path)
    next(iter(sorted(folder.rglob("*.[jJ][pP][gG]")))).unlink()
    with pytest.raises(UsageError, match=r"1 of \d+ files are missing .* again"):
        load(name, root=str(tmp_path))


@pytest.mark.parametrize("name", ALL)
def test_every_card_states_license_source_and_citation(name: str) -> None:
    card = registry[name].card
    assert card.license and card.source.startswith("https://") and card.citation and card.summary
    assert card.downloads or card.manual_download
    for download in card.downloads:
        assert all(url.startswith("http") for url in download.urls)
        assert len(download.md5) in {0, 32}


def test_cub_cuts_the_classes_not_by_its_classification_split(tmp_path: Path) -> None:
    layouts.cub200(tmp_path, classes=6)
    dataset = load("cub200", root=str(tmp_path))
    assert dataset.labels.tolist() == np.repeat(np.arange(6), 3).tolist()
    assert dataset.is_test is not None and dataset.is_test.tolist() == (dataset.labels >= 3).tolist()
    assert dataset.class_names[0] == "001.Bird_0"


def test_cars_takes_its_labels_from_the_annotations(tmp_path: Path) -> None:
    layouts.cars196(tmp_path)
    dataset = load("cars196", root=str(tmp_path))
    assert dataset.labels.tolist() == [0, 1, 2, 3] * 3
    assert dataset.is_test is not None and dataset.is_test.tolist() == [False, False, True, True] * 3
    assert dataset.class_names[2] == "Maker Model 2"


def test_flowers_are_split_by_class(tmp_path: Path) -> None:
    layouts.flowers102(tmp_path)
    dataset = load("flowers102", root=str(tmp_path))
    assert dataset.labels.tolist() == list(range(102)) * 2
    assert dataset.is_test is not None and dataset.is_test.tolist() == ([False] * 51 + [True] * 51) * 2
    assert len(set(dataset.class_names)) == 102


def test_sop_has_its_official_split_and_the_half_split(tmp_path: Path) -> None:
    layouts.sop(tmp_path, train=6, test=4)
    dataset = load("sop", root=str(tmp_path))
    official = splits.create("class_disjoint", dataset.labels, is_test=dataset.is_test, folds=2)
    assert sorted(set(dataset.labels[official.test])) == [6, 7, 8, 9]
    for half in (
        splits.create("mlrc", dataset.labels, is_test=dataset.is_test, folds=2),
        splits.create("class_disjoint", dataset.labels, is_test=dataset.is_test, folds=2, test_fraction=0.5),
    ):
        assert sorted(set(dataset.labels[half.test])) == [5, 6, 7, 8, 9]


def test_inshop_keeps_queries_and_gallery_apart(tmp_path: Path) -> None:
    folder = layouts.inshop(tmp_path)
    dataset = load("inshop", root=str(tmp_path))
    assert dataset.roles is not None and dataset.roles.tolist() == [0] * 4 + [1, 2, 2] * 2
    assert dataset.labels.tolist() == [0, 0, 3, 3, 1, 1, 1, 2, 2, 2]
    assert dataset.is_test is not None and dataset.is_test.sum() == 6
    (folder / "Eval" / "list_eval_partition.txt").rename(folder / "list_eval_partition.txt")
    assert load("inshop", root=str(tmp_path)).fingerprint == dataset.fingerprint


def test_landmarks_have_train_clean_index_and_the_solutions_queries(tmp_path: Path) -> None:
    layouts.gldv2(tmp_path)
    clean, whole = load("gldv2", root=str(tmp_path)), load("gldv2", root=str(tmp_path), train="all")
    assert (len(clean), len(whole)) == (4 + 6 + 3, 6 + 6 + 3)
    assert clean.roles is not None and clean.roles.tolist() == [0] * 4 + [2] * 6 + [1] * 3
    assert clean.class_names == ("train 70", "train 71", "index 0", "index 1", "index 2")
    assert clean.labels[-3:].tolist() == [2, 4, 3]
    assert clean.query_lists() is not None
    relevant, ignored = clean.query_lists() or ([], [])
    assert [each.tolist() for each in relevant] == [[0, 1], [4, 5, 2], [3]]
    assert [len(each) for each in ignored] == [0, 0, 0]
    public = load("gldv2", root=str(tmp_path), usage="public")
    assert public.roles is not None and (public.roles == 1).sum() == 1
    plan = splits.create("class_disjoint", clean.labels, is_test=clean.is_test, folds=2)
    assert plan.test.tolist() == list(range(4, 13))
    test = clean.select(plan.test).query_lists() or ([], [])
    assert [each.tolist() for each in test[0]] == [[0, 1], [4, 5, 2], [3]]  # the rows are renumbered
    development = clean.select(plan.development)
    assert development.relevant is not None and len(development.relevant) == 0


def test_landmarks_are_scored_by_the_list_of_the_solution_file(tmp_path: Path) -> None:
    """A query lists one of the two index images of its landmark; the other is a wrong answer."""
    layouts.gldv2(tmp_path)
    clean = load("gldv2", root=str(tmp_path))
    assert clean.is_test is not None
    test = clean.select(np.flatnonzero(clean.is_test))
    embeddings = torch.eye(9)
    embeddings[8] = torch.tensor([0.1, 0.1, 1.0, 0.9, 0.1, 0.1, 0, 0, 0])  # its own landmark first, item 2
    (alone,), together = score_concatenation([embeddings], test, metrics=("map_at_100",))
    for scores in (alone, together):
        assert scores.per_query["map_at_100"][2] == pytest.approx(1 / 2)


@pytest.mark.parametrize(
    ("name", "file", "content", "message"),
    [
        ("cub200", "images.txt", "", "is empty; fetch"),
        ("cub200", "images.txt", "1 a b\n", "images.txt, line 1: 3 fields instead of 2"),
        ("cub200", "image_class_labels.txt", "1 one\n", '"one" is not a whole number'),
        ("cub200", "image_class_labels.txt", "1 1\n", "are inconsistent"),
        ("cars196", "cars_annos.mat", "not a matrix", "is not the official annotation file"),
        ("flowers102", "imagelabels.mat", "not a matrix", "is not the official label file"),
        (
            "sop",
            "Ebay_test.txt",
            "image_id class_id super_class_id path\n1 2\n",
            "line 2: 2 fields instead of 4",
        ),
        ("inshop", "Eval/list_eval_partition.txt", "1\nx y z\nimg/a.jpg id_1 probe\n", 'status "probe"'),
        ("gldv2", "train_clean.csv", "landmark_id,images\n", "is empty or damaged"),
        ("gldv2", "train_clean.csv", "landmark_id,image_ids\n1,a\n", "is empty or damaged"),
        ("gldv2", "train_clean.csv", "landmark_id,images\n1,ab\n", "the image id 'ab'"),
        ("gldv2", "train_clean.csv", "landmark_id,images\n1,../../../secret\n", "the image id"),
        (
            "gldv2",
            "retrieval_solution_v2.1.csv",
            "id,images,Usage\na,b,Public\n",
            "relevant image b of query a is not in the index list",
        ),
        ("gldv2", "retrieval_solution_v2.1.csv", "id,images,Usage\na,b,Ignored\n", "no queries"),
    ],
)
def test_damaged_lists_are_named(name: str, file: str, content: str, message: str, tmp_path: Path) -> None:
    folder = ALL[name](tmp_path)
    (folder / file).write_text(content)
    with pytest.raises(UsageError, match=message):
        load(name, root=str(tmp_path))


def test_unknown_choices_and_binary_lists_are_refused(tmp_path: Path) -> None:
    folder = layouts.gldv2(tmp_path)
    with pytest.raises(UsageError, match="train = 'dirty', but it takes one of clean, all"):
        load("gldv2", root=str(tmp_path), train="dirty")
    with pytest.raises(UsageError, match="usage = 'secret', but it takes one of"):
        load("gldv2", root=str(tmp_path), usage="secret")
    (folder / "train_clean.csv").unlink()
    with pytest.raises(UsageError, match=r"train_clean\.csv is not in"):
        load("gldv2", root=str(tmp_path))
    (layouts.cub200(tmp_path) / "images.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not a UTF-8 text file"):
        load("cub200", root=str(tmp_path))
