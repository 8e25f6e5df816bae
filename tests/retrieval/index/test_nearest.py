"""Exact search is exact; approximate search reaches its stated recall."""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path

import numpy as np
import pytest

from levelfield.core.errors import UsageError
from levelfield.retrieval.index import (
    LocalIndex,
    NewImage,
    _exact,
    _largest,
    choose_index_type,
    open_index,
    open_or_create_index,
)
from levelfield.retrieval.index import _local as local_module
from levelfield.retrieval.index._vectors import Vectors


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(local_module, "SHARD_ROWS", 700)
    yield


def unit(count: int, *, seed: int = 0, size: int = 8) -> np.ndarray:
    centers = np.random.default_rng(99).normal(size=(40, size))
    random = np.random.default_rng(seed)
    vectors = centers[random.integers(40, size=count)] + 0.5 * random.normal(size=(count, size))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def put(index: LocalIndex, vectors: np.ndarray, *, first: int = 0) -> None:
    images = [NewImage(f"{first + n}".encode(), f"image/{first + n}", "") for n in range(len(vectors))]
    for start in range(0, len(vectors), 300):
        index.add(images[start : start + 300], vectors[start : start + 300])


def slow(vectors: np.ndarray, query: np.ndarray, count: int, removed: Set[int] = frozenset()) -> list[float]:
    return sorted((float(v @ query) for row, v in enumerate(vectors) if row not in removed), reverse=True)[
        :count
    ]


@pytest.mark.parametrize("count", [1, 10, 2000])
def test_exact_search_is_a_sort_of_everything(model: Path, tmp_path: Path, count: int) -> None:
    vectors, queries = unit(1999), unit(5, seed=1)
    with open_or_create_index(tmp_path / "index", model) as index:
        put(index, vectors)
        index.remove("image/7")
        index.finish()
    opened = open_index(tmp_path / "index")
    rows, similarities = opened.nearest(queries, count)
    assert rows.shape == (5, min(count, 1998))
    for query in range(5):
        wanted = slow(vectors, queries[query], count, {7})
        np.testing.assert_allclose(similarities[query], wanted, atol=1e-5)
        np.testing.assert_allclose(vectors[rows[query]] @ queries[query], wanted, atol=1e-5)
        assert len(set(rows[query].tolist())) == rows.shape[1]
        assert 7 not in rows[query]


@pytest.mark.parametrize("with_faiss", [True, False])
@pytest.mark.parametrize("kind", ["distinct", "equal rows", "one point"])
def test_ties_are_in_row_order_with_and_without_faiss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, with_faiss: bool
) -> None:
    if not with_faiss:
        monkeypatch.setattr(_largest, "_faiss", lambda: None)
    monkeypatch.setattr(_exact, "BLOCK_ROWS", 1000)
    # Small whole numbers, so that every product is exact and the order of a sort is the only right answer.
    random = np.random.default_rng(0)
    made = random.integers(-3, 4, size=(2500, 8) if kind == "distinct" else (40, 8)).astype(np.float32)
    one_point = np.ones((2400, 8), np.float32)
    values = {"distinct": made, "equal rows": np.tile(made, (60, 1)), "one point": one_point}[kind]
    vectors = Vectors(tmp_path, size=8, count=0, shard_rows=1700)
    vectors.append(values)
    queries = random.integers(-3, 4, size=(30, 8)).astype(np.float32)
    similarities = queries @ values.T
    every = np.arange(len(values))
    narrow, broad = every[::50], np.setdiff1d(every, [3, 5, 1999])
    many = np.setdiff1d(every, random.choice(every, size=300, replace=False))
    for some in (queries, queries[:1]):
        for among in (every, narrow, broad, many):
            masked = np.full((len(some), len(values)), -np.inf)
            masked[:, among] = similarities[: len(some), among]
            order = np.argsort(-masked, axis=1, kind="stable")
            for count in (1, 10, 400):
                wanted = order[:, : min(count, len(among))]
                rows, found = _exact.search_rows(vectors, some, count, among)
                np.testing.assert_array_equal(rows, wanted)
                np.testing.assert_array_equal(found, np.take_along_axis(masked, wanted, 1))


def recall(index: LocalIndex, vectors: np.ndarray, queries: np.ndarray, removed: set[int]) -> float:
    rows, similarities = index.nearest(queries, 10)
    shares = []
    for query, found, values in zip(queries, rows, similarities, strict=True):
        assert not set(found.tolist()) & removed
        np.testing.assert_allclose(vectors[found] @ query, values, atol=1e-5)  # measured exactly
        worst = slow(vectors, query, 10, removed)[-1]
        shares.append(np.mean(values >= worst - 1e-6))
    return float(np.mean(shares))


@pytest.mark.slow
@pytest.mark.parametrize(("memory", "kind"), [(1 << 30, "hnsw"), (400_000, "ivfpq")])
def test_approximate_search_has_the_recall_that_the_index_states(
    model: Path, tmp_path: Path, memory: int, kind: str
) -> None:
    pytest.importorskip("faiss")
    vectors, queries = unit(6000), unit(50, seed=1)
    with open_or_create_index(
        tmp_path / "index", model, memory=memory, exact_up_to=1000, recall=0.9
    ) as index:
        put(index, vectors)
        index.finish()
        facts = index.card.approximate
        assert facts is not None
        assert facts.kind == kind
        assert facts.high >= 0.9
        # Of 6000 rows 375 are held out: half of them tune, the others measure.
        assert (facts.sample, facts.fresh, facts.rows) == (187, True, 6000)
        assert facts.low < facts.recall <= facts.high
        index.remove("image/3")
        removed = {3}
    opened = open_index(tmp_path / "index")
    assert opened.card.approximate == facts
    assert recall(opened, vectors, queries, removed) >= 0.8
    assert not [file for file in (tmp_path / "index").iterdir() if file.name.endswith(".tmp")]


def test_what_is_added_later_is_found_before_and_after_it_goes_into_the_graph(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss")
    vectors = unit(4500)
    with open_or_create_index(tmp_path / "index", model, exact_up_to=1000) as index:
        put(index, vectors[:3000])
        index.finish()
        put(index, vectors[3000:], first=3000)
        index.finish()
        assert index.card.approximate is not None
        assert index.card.approximate.rows == 3000  # the rest is searched exactly
    assert recall(open_index(tmp_path / "index"), vectors, vectors[2990:3010], set()) > 0.9
    monkeypatch.setattr(local_module, "TAIL", 100)
    with open_or_create_index(tmp_path / "index", model) as index:
        index.finish()
        assert index.card.approximate is not None
        assert index.card.approximate.rows == 4500
    assert len(list((tmp_path / "index").glob("approximate-*.faiss"))) == 1
    assert recall(open_index(tmp_path / "index"), vectors, vectors[2990:3010], set()) > 0.9


def test_if_few_rows_are_left_the_search_is_exact(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    vectors = unit(3000)
    with open_or_create_index(tmp_path / "index", model, exact_up_to=1000) as index:
        put(index, vectors)
        index.finish()
        index._catalog.remove(range(2500))
    assert recall(open_index(tmp_path / "index"), vectors, unit(20, seed=2), set(range(2500))) == 1.0


def test_the_kind_of_search_follows_size_and_memory() -> None:
    assert choose_index_type(200_000, 128, memory=1 << 40).kind == "exact"
    assert choose_index_type(200_001, 128, memory=1 << 40).kind == "hnsw"
    tight = choose_index_type(4_132_914, 512, memory=1 << 30)
    assert tight.kind == "ivfpq"
    assert tight.bytes <= 1 << 30
    with pytest.raises(UsageError, match="even compressed"):
        choose_index_type(10**9, 128, memory=1 << 30)


def test_a_damaged_graph_gets_one_line(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    from levelfield.core.errors import RunError

    with open_or_create_index(tmp_path / "index", model, exact_up_to=1000) as index:
        put(index, unit(2000))
        index.finish()
    (file,) = (tmp_path / "index").glob("approximate-*.faiss")
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(RunError, match="cannot be read") as caught:
        open_index(tmp_path / "index").nearest(unit(1), 3)
    assert "\n" not in str(caught.value)


def test_another_recall_to_aim_at_tunes_the_index_anew(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    memory = {"memory": 400_000}  # compressed lists, which need more effort for more recall
    with open_or_create_index(tmp_path / "index", model, exact_up_to=1000, recall=0.3, **memory) as index:
        put(index, unit(6000))
        index.finish()
        careless = index.card.approximate
    with open_or_create_index(tmp_path / "index", model, recall=0.95) as index:
        index.finish()
        careful = index.card.approximate
    assert careless is not None
    assert careful is not None
    assert careful.effort * careful.refine > careless.effort * careless.refine
    assert careful.recall > careless.recall
    assert len(list((tmp_path / "index").glob("approximate-*.faiss"))) == 1


def test_a_reader_that_was_open_finds_the_new_approximate_part(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss")
    monkeypatch.setattr(local_module, "TAIL", 100)
    with open_or_create_index(tmp_path / "index", model, exact_up_to=500) as index:
        put(index, unit(2000))
        index.finish()
    reader = open_index(tmp_path / "index")
    with open_or_create_index(tmp_path / "index", model) as index:
        put(index, unit(600, seed=5), first=2000)
        index.finish()
    assert reader.nearest(unit(1, seed=3), 3)[0].shape == (1, 3)
    assert len(reader) == 2600


def test_the_recall_is_measured_again_when_many_rows_are_gone(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    vectors = unit(6000)
    with open_or_create_index(
        tmp_path / "index", model, exact_up_to=100, memory=200_000, recall=0.9
    ) as index:
        put(index, vectors)
        index.finish()
        before = index.card.approximate
        index.remove_rows(range(300))
        index.finish()
        assert index.card.approximate == before  # few rows: the measurement is still valid
        gone = set(range(5000))
        index.remove_rows(range(300, 5000))
        index.finish()
        after = index.card.approximate
    assert before is not None
    assert after is not None
    assert (before.removed, after.removed) == (0, 5000)
    stated = after.recall
    assert recall(open_index(tmp_path / "index"), vectors, unit(100, seed=8), gone) > stated - 0.08
