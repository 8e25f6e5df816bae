"""Datasets with lists: Revisited Oxford and Paris, own benchmarks, and how their queries are scored."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.oracles import layouts
from tests.oracles import metrics as oracle

from levelfield.core.errors import UsageError
from levelfield.data import Dataset, from_arrays, load
from levelfield.data.datasets import _plain_pickle
from levelfield.data.datasets._plain_pickle import read_plain_pickle
from levelfield.data.views import split_dataset
from levelfield.retrieval.rerank import RetrievalSet, compare_rerankers
from levelfield.retrieval.scoring import dataset_lists, retrieval_set, score_dataset

NAMES = ("map_trapezoid", "mp_at_1", "mp_at_5", "map", "map_at_r")


def lists_of(dataset: Dataset) -> list[list[list[int]]]:
    found = dataset.query_lists()
    assert found is not None
    return [[each.tolist() for each in part] for part in found]


@pytest.mark.parametrize(
    ("difficulty", "relevant", "ignored"),
    [
        ("easy", [[0, 1], [], [7]], [[2, 3], [4, 5], [8, 9]]),
        ("medium", [[0, 1, 2], [4, 5], [7]], [[3], [], [8, 9]]),
        ("hard", [[2], [4, 5], []], [[0, 1, 3], [], [7, 8, 9]]),
    ],
)
def test_revisited_setups(tmp_path: Path, difficulty: str, relevant: Any, ignored: Any) -> None:
    layouts.revisited(tmp_path)
    found = load("roxford5k", root=str(tmp_path), difficulty=difficulty)
    assert lists_of(found) == [relevant, ignored]
    assert found.class_names[:2] == ("tower", "gate") and len(found) == 15
    assert [found.class_names[label] for label in found.labels[12:]] == ["tower", "tower", "gate"]
    assert found.images.read(0).shape == (3, 30, 40)
    assert found.images.read(12).shape == (3, 26, 30), "a query is cut to its box"
    assert found.images.read(14).shape == (3, 30, 40), "the part of a box outside of the image is left out"
    assert len(found.notes) == (difficulty != "medium")


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_pickles_of_all_ages_are_read_alike(tmp_path: Path, protocol: int) -> None:
    layouts.revisited(tmp_path, "rparis6k", protocol=protocol)
    assert lists_of(load("rparis6k", root=str(tmp_path)))[0] == [[0, 1, 2], [4, 5], [7]]


def test_boxes_setups_and_lists_are_part_of_the_identity(tmp_path: Path) -> None:
    folder = layouts.revisited(tmp_path)
    one, other = (load("roxford5k", root=str(tmp_path), difficulty=each) for each in ("easy", "hard"))
    assert one.fingerprint != other.fingerprint
    assert one.digests is not None and len(np.unique(one.digests, axis=0)) == 15
    file = folder / "gnd_roxford5k.pkl"
    content = pickle.loads(file.read_bytes())
    content["gnd"][0]["bbx"] = [0.0, 0.0, 9.0, 9.0]
    file.write_bytes(pickle.dumps(content))
    moved = load("roxford5k", root=str(tmp_path), difficulty="easy")
    assert moved.fingerprint != one.fingerprint and moved.content != one.content


def test_training_images_come_from_another_folder(tmp_path: Path) -> None:
    layouts.revisited(tmp_path)
    for n in range(4):
        layouts.draw_image(tmp_path / "more" / f"place {n // 2}" / f"{n}.png", n)
    found = load("roxford5k", root=str(tmp_path), train=str(tmp_path / "more"))
    assert found.is_test is not None and found.is_test.sum() == 15 and len(found) == 19
    assert lists_of(found)[0] == [[0, 1, 2], [4, 5], [7]]
    assert found.images.read(0).shape == (3, 10, 12) and found.class_names[0].startswith("train place")


def test_arrays_of_both_byte_orders_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.pkl"
    arrays = [np.array([1, 2, 300], dtype=kind) for kind in (">i4", "<i8", ">f8", "u2")]
    file.write_bytes(pickle.dumps([*arrays, np.arange(6).reshape(2, 3).T, np.float64(2.5)]))
    *found, square, number = read_plain_pickle(file)
    assert all(each.tolist() == [1, 2, 300] for each in found)
    assert square.tolist() == [[0, 3], [1, 4], [2, 5]] and number == 2.5


class Runs:
    """Pickled, it runs a command when it is read."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


def test_a_pickle_never_runs_code(tmp_path: Path) -> None:
    file, marker = tmp_path / "a.pkl", tmp_path / "marker"
    file.write_bytes(pickle.dumps({"gnd": [Runs(marker)]}))
    with pytest.raises(UsageError, match="it names posix") as caught:
        read_plain_pickle(file)
    assert not marker.exists() and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"(" * 5000 + b".",
        b"\x80\x04r\xff\xff\xff\x7f.",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
        pickle.dumps(np.array([object()])),
        pickle.dumps(np.array(["text"])),
        pickle.dumps(np.zeros(3, dtype=[("a", int)])),
        pickle.dumps(Path("/")),
        pickle.dumps(np.arange(9))[:-20],
    ],
)
def test_other_pickles_end_in_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.pkl"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="is not a pickle of lists, texts and numbers") as caught:
        read_plain_pickle(file)
    assert "\n" not in str(caught.value)


def test_a_short_pickle_does_not_make_the_same_text_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_plain_pickle, "MAX_BYTES", 1 << 20)
    encode, text = b"c_codecs\nencode\nq\x01", b"X\x10\x27\x00\x00" + b"a" * 10_000
    file = tmp_path / "a.pkl"
    file.write_bytes(b"\x80\x02(" + encode + text + b"\x85q\x02" + b"h\x01h\x02R" * 200 + b"l.")
    with pytest.raises(UsageError, match="it makes more than 1 MB"):
        read_plain_pickle(file)


def test_an_empty_array_has_no_billion_rows(tmp_path: Path) -> None:
    file = tmp_path / "a.pkl"
    content = pickle.dumps(np.zeros((1, 0)), protocol=4)
    assert content.count(b"K\x01K\x00\x86") == 1
    file.write_bytes(content.replace(b"K\x01K\x00\x86", b"J\x00\xca\x9a\x3bK\x00\x86"))
    assert list(read_plain_pickle(file)) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.pop("gnd"), "has no gnd, imlist and qimlist"),
        (lambda c: c["gnd"].pop(), "lists for 2 queries but 3 names"),
        (lambda c: c["gnd"][0].pop("bbx"), "has no easy, hard, junk and bbx"),
        (lambda c: c["gnd"][0].update(bbx=[1, 2]), "it must be four numbers"),
        (lambda c: c["gnd"][0].update(easy=[99]), "lists image 99 of 12"),
        (lambda c: c["gnd"][0].update(easy=["x"]), "lists image x of 12"),
        (lambda c: c["gnd"][0].update(easy=[float("nan"), 1]), "lists image nan of 12"),
        (lambda c: c["gnd"][0].update(easy=[0] * 2_000_001), "lists more than 2,000,000 images"),
        (lambda c: c["gnd"][0].update(bbx=[0] * 1000), "a list of 1,000 entries"),
        (lambda c: c.update(qimlist=["a"] * 100_001), "a list of 100,001 entries"),
        (lambda c: c["imlist"].__setitem__(0, "a" * 251), "which is not a file name"),
        (lambda c: c["gnd"][0].update(easy=[3]), "as relevant and as ignored"),
        (lambda c: c["gnd"][0].update(easy="abc"), "holds a str in place of a list"),
        (lambda c: c["imlist"].__setitem__(0, "../../secret"), "which is not a file name"),
        (lambda c: c["imlist"].__setitem__(0, c["imlist"][1]), "is listed twice"),
    ],
)
def test_damaged_ground_truth_is_named(tmp_path: Path, change: Any, message: str) -> None:
    file = layouts.revisited(tmp_path) / "gnd_roxford5k.pkl"
    content = pickle.loads(file.read_bytes())
    change(content)
    file.write_bytes(pickle.dumps(content))
    with pytest.raises(UsageError, match=message):
        load("roxford5k", root=str(tmp_path))


def own(folder: Path, content: Any, name: str = "lists.json") -> Path:
    for seed, image in enumerate("abcdef"):
        layouts.draw_image(folder / f"{image}.png", seed)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / name


def test_own_lists_as_json_and_csv(tmp_path: Path) -> None:
    queries: list[dict[str, Any]] = [
        {"image": "a.png", "relevant": ["b.png"], "ignored": ["c.png"], "group": "g"},
        {"image": "b.png", "relevant": ["c.png", "d.png"], "box": [0, 0, 5, 5]},
    ]
    found = load("relevance", file=str(own(tmp_path, {"queries": queries})))
    # b is searched, since a lists it; as a query it ignores itself. Searched: b c d e f
    assert lists_of(found) == [[[0], [1, 2]], [[1], [0]]]
    assert found.class_names[:2] == ("g", "query 2") and found.images.read(6).shape == (3, 5, 5)
    queries[1].pop("box")
    table = "query,image,relevance,group\na.png,b.png,relevant,g\na.png,c.png,-1,g\n"
    table += "b.png,c.png,1,\nb.png,d.png,relevant,\n"
    assert lists_of(load("relevance", file=str(own(tmp_path, table, "lists.csv")))) == lists_of(found)
    given = {"queries": queries, "gallery": ["d.png", "c.png", "b.png"]}
    assert lists_of(load("relevance", file=str(own(tmp_path, given)))) == [[[2], [0, 1]], [[1], [2]]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no json", "is not JSON"),
        ({"query": []}, 'has no list "queries"'),
        ({"queries": [], "galery": []}, 'unknown key "galery"; did you mean "gallery"'),
        ({"queries": []}, "there are no queries"),
        ({"queries": [{"image": "a.png"}]}, 'query 1 has no "relevant"'),
        ({"queries": [{"image": "a.png", "relevant": []}]}, "no query has a relevant image"),
        ({"queries": [{"image": "a.png", "relevant": ["x.png"]}]}, 'lists "x.png" as relevant, which is not'),
        ({"queries": [{"image": "a.png", "relevant": ["../b.png"]}]}, "leads out of the root"),
        ({"queries": [{"image": "/etc/passwd", "relevant": ["b.png"]}]}, "leads out of the root"),
        ({"queries": [{"image": "a.png", "relevant": "b.png"}]}, "is not a list of paths"),
        ({"queries": [{"image": "a.png", "relevant": ["b.png"], "ignored": ["b.png"]}]}, "and as ignored"),
        ({"queries": [{"image": "a.png", "relevant": ["b.png"], "box": [5, 0, 1, 1]}]}, "is empty"),
        ({"queries": [{"image": "no.png", "relevant": ["b.png"]}]}, "1 of 7 files are missing"),
        ("query,image\n", "is not JSON"),
    ],
)
def test_bad_lists_of_ones_own_are_named(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        load("relevance", file=str(own(tmp_path, content)))
    assert "\n" not in str(caught.value)


def test_a_box_outside_of_its_image_is_named(tmp_path: Path) -> None:
    content = {"queries": [{"image": "a.png", "relevant": ["b.png"], "box": [50, 0, 60, 9]}]}
    found = load("relevance", file=str(own(tmp_path, content)))
    with pytest.raises(Exception, match="the box 50, 0, 60, 9 is outside of its 12 x 10 pixels"):
        found.images.read(len(found) - 1)


def made(seed: int) -> tuple[Dataset, torch.Tensor, list[list[int]], list[list[int]]]:
    """A dataset of 9 queries and 40 searched images with random lists, and its embeddings."""
    random = np.random.default_rng(seed)
    pixels = np.zeros((49, 1, 2, 2), dtype=np.uint8)
    plain = from_arrays("blank", pixels, np.repeat(np.arange(7), 7), [str(n) for n in range(7)])
    kept, hidden, pairs, skipped = [], [], [], []
    for query in range(9):
        order, count = random.permutation(40).tolist(), int(random.integers(0, 6))
        kept.append(sorted(order[:count]))
        hidden.append(sorted(order[count : count + 8]))
        pairs += [(40 + query, item) for item in kept[-1]]
        skipped += [(40 + query, item) for item in hidden[-1]]
    roles = np.repeat(np.array([2, 1], dtype=np.int8), (40, 9))
    lists = {"relevant": np.array(pairs, dtype=np.int64), "ignored": np.array(skipped, dtype=np.int64)}
    found = Dataset(**{**vars(plain), "roles": roles, **lists})
    return found, torch.from_numpy(random.normal(size=(49, 5))).float(), kept, hidden


@pytest.mark.parametrize("seed", range(4))
def test_scores_of_a_dataset_are_those_of_its_lists(seed: int) -> None:
    dataset, embeddings, kept, hidden = made(seed)
    scores = score_dataset(embeddings, dataset, metrics=NAMES, per_query=True)
    rows, items = embeddings[40:].double().numpy(), embeddings[:40].double().numpy()
    expected = oracle.per_query_by_lists(NAMES, rows, kept, hidden, gallery=items)
    for name, values in expected.items():
        np.testing.assert_allclose(scores.per_query[name], values, rtol=1e-7, atol=1e-12, err_msg=name)


def test_a_query_that_is_searched_does_not_find_itself() -> None:
    pixels = np.zeros((4, 1, 2, 2), dtype=np.uint8)
    plain = from_arrays("blank", pixels, np.array([0, 0, 1, 1]), ["a", "b"])
    roles = np.array([3, 2, 3, 2], dtype=np.int8)
    dataset = Dataset(**{**vars(plain), "roles": roles})
    points = torch.tensor([[1.0, 0], [0, 1], [0.9, 0.1], [0.1, 0.9]])
    assert score_dataset(points, dataset, metrics=["precision_at_1"])["precision_at_1"] == 0
    assert dataset_lists(dataset)[1] is not None
    plain_scores = compare_rerankers(retrieval_set(points, dataset), others(), names=())[0].scores
    assert plain_scores["precision_at_1"].value == 0


def others() -> RetrievalSet:
    random = torch.Generator().manual_seed(0)
    labels = torch.arange(60) // 6 + 1000
    return RetrievalSet(torch.randn(60, 5, generator=random)[:, :2], labels)


@pytest.mark.parametrize("seed", range(3))
def test_rerankings_are_scored_by_lists(seed: int) -> None:
    dataset, embeddings, *_ = made(seed)
    development = RetrievalSet(
        torch.randn(60, 5, generator=torch.Generator().manual_seed(seed)), torch.arange(60) // 6 + 1000
    )
    names = ("map", "map_at_r", "precision_at_1")
    found = compare_rerankers(
        retrieval_set(embeddings, dataset), development, names=("aqe", "dba"), metrics=names
    )
    scores = score_dataset(embeddings, dataset, metrics=names)
    assert [each.name for each in found] == ["none", "aqe", "dba"]
    for name in names:
        assert found[0].scores[name].value == pytest.approx(scores[name], abs=1e-9)
        for each in found[1:]:
            gain = each.scores[name].value - found[0].scores[name].value
            assert each.gains[name].value == pytest.approx(gain, abs=1e-9)


def test_a_test_set_with_lists_is_not_cut_again(tmp_path: Path) -> None:
    layouts.revisited(tmp_path)
    found = load("roxford5k", root=str(tmp_path))
    with pytest.raises(UsageError, match="has test images only"):
        split_dataset(found, "class_disjoint", {})
    with pytest.raises(UsageError, match=r"set split.test_fraction=null"):
        split_dataset(found, "class_disjoint", {"test_fraction": 0.5})
