"""The gallery: queries chosen by fixed rules, images only through the guard, scores unchanged."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file
from torch.nn import functional as F

import levelfield as lf
from levelfield.analysis import analyze, choose_queries, verify
from levelfield.data import registry as datasets
from levelfield.protocol import guard
from levelfield.protocol.confirm import _gallery
from levelfield.protocol.confirm._neighbors import nearest_neighbors
from levelfield.records import EVENT_FROZEN, EVENT_GALLERY, EVENT_SEALED, Store

pytestmark = pytest.mark.slow


def run(values: dict[str, Any], out: Path, **confirm: Any) -> Store:
    values = values | {"methods": ["contrastive", "triplet"], "confirm": {"reruns": 1, **confirm}}
    return Store(lf.run(lf.Experiment.build(**values), out).path)


def slow_neighbors(points: torch.Tensor, asked: np.ndarray, searched: np.ndarray, k: int) -> list[list[int]]:
    unit = F.normalize(points)
    found = []
    for row in asked.tolist():
        others = [other for other in searched.tolist() if other != row]
        found.append(sorted(others, key=lambda other: -float(unit[row] @ unit[other]))[:k])
    return found


def test_neighbors_are_those_of_a_slow_search() -> None:
    points = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    everyone = np.arange(40)
    found, similarity = nearest_neighbors(points, everyone, everyone, block=7)
    assert found.tolist() == slow_neighbors(points, everyone, everyone, 8)
    assert (similarity.diff(dim=1) <= 0).all()
    queries, gallery = everyone[:15], everyone[15:]
    found, _ = nearest_neighbors(points, queries, gallery)
    assert found.tolist() == slow_neighbors(points, queries, gallery, 8)


def test_queries_are_chosen_at_random_hardest_and_where_methods_differ() -> None:
    random = np.random.default_rng(0)
    scores = {name: random.uniform(size=60) for name in "abc"}
    scores["a"][7] = np.nan
    asked = 100 + np.arange(60)
    chosen = choose_queries(scores, asked, count=12, name="set")
    assert chosen == choose_queries(scores, asked, count=12, name="set")
    assert [query.why for query in chosen] == ["random"] * 4 + ["hardest"] * 4 + ["differs"] * 4
    assert len({query.row for query in chosen}) == 12
    assert 107 not in {query.row for query in choose_queries(scores, asked, count=60, name="set")}
    drawn = {query.row for query in chosen[:4]}
    means = {row: np.mean([scores[name][row - 100] for name in "abc"]) for row in asked.tolist()}
    hardest = [row for row in sorted(means, key=lambda row: means[row]) if row not in drawn | {107}]
    assert [query.row for query in chosen[4:8]] == hardest[:4]
    for query in chosen[8:]:
        assert query.between is not None
        values = [scores[name][query.row - 100] for name in "abc"]
        assert query.between == ("abc"[int(np.argmax(values))], "abc"[int(np.argmin(values))])
    other = choose_queries(scores, asked, count=12, name="another set")
    assert [query.row for query in other[:4]] != [query.row for query in chosen[:4]]


def test_methods_that_never_differ_are_not_said_to() -> None:
    same = {name: np.linspace(0, 1, 30) for name in "ab"}
    assert "differs" not in {query.why for query in choose_queries(same, np.arange(30), count=9, name="x")}


def test_a_run_keeps_thumbnails_and_notes_the_opening(tiny: dict[str, Any], tmp_path: Path) -> None:
    store = run(tiny, tmp_path / "out", gallery=6)
    gallery = store.gallery()
    assert gallery is not None
    # both methods stay at their initial weights here, so they differ on no query
    assert [query.why for query in gallery.queries] == ["random"] * 2 + ["hardest"] * 2
    assert set(gallery.confirmations) == {"untrained", "contrastive", "triplet"}
    thumbnails = load_file(store.gallery_images_file)
    analysis = analyze(store.root)
    for method in gallery.confirmations:
        found = analysis.confirmations[method].neighbors()
        assert found is not None
        rows = {row: line for row, line in zip(found.queries.tolist(), found.rows.tolist(), strict=True)}
        for query in gallery.queries:
            assert {str(row) for row in (query.row, *rows[query.row])} <= set(thumbnails)
    assert gallery.map is not None and len(gallery.map.pca) == len(gallery.map.tsne) == len(gallery.map.rows)
    image = Image.open(io.BytesIO(thumbnails[str(gallery.queries[0].row)].tobytes()))
    assert image.format == "WEBP" and max(image.size) <= gallery.side
    ledger = store.ledger()
    assert ledger[-1].event == EVENT_GALLERY and [line.event for line in ledger].count(EVENT_GALLERY) == 1
    assert verify(store.root) == []
    before = {file: file.read_bytes() for file in (tmp_path / "out" / "confirmations").rglob("*.*")}
    assert run(tiny, tmp_path / "out", gallery=6).ledger() == ledger, "nothing is opened again"
    assert before == {file: file.read_bytes() for file in before}


def test_no_gallery_is_kept_where_none_is_asked_for(tiny: dict[str, Any], tmp_path: Path) -> None:
    store = run(tiny, tmp_path / "out", gallery=0)
    assert store.gallery() is None and not store.gallery_images_file.exists()
    assert {line.event for line in store.ledger()} == {EVENT_FROZEN, "opened", EVENT_SEALED}


def test_a_gallery_can_be_had_later_and_touches_no_score(tiny: dict[str, Any], tmp_path: Path) -> None:
    store = run(tiny, tmp_path / "out", gallery=0)
    runs = {run.path.name for run in store.runs()}
    scores = {file: file.read_bytes() for file in store.root.glob("confirmations/*/*.json")}
    arrays = {file: load_file(file) for file in store.root.glob("confirmations/*/*.safetensors")}
    run(tiny, tmp_path / "out", gallery=3)
    assert {run.path.name for run in store.runs()} == runs, "nothing is trained again"
    assert scores == {file: file.read_bytes() for file in scores}
    for file, before in arrays.items():
        after = load_file(file)
        assert all(np.array_equal(after[key], before[key], equal_nan=True) for key in before)
    fresh = run(tiny, tmp_path / "fresh", gallery=3)
    assert store.gallery() == fresh.gallery(), "the same as if it had been asked for at once"
    assert verify(store.root) == []


def test_records_without_weights_get_no_gallery_and_no_error(tiny: dict[str, Any], tmp_path: Path) -> None:
    store = run(tiny, tmp_path / "out", gallery=0)
    for file in store.root.glob("runs/*/*.safetensors"):
        file.unlink()
    run(tiny, tmp_path / "out", gallery=3)
    assert store.gallery() is None
    assert not [line for line in store.ledger() if line.event == EVENT_GALLERY and line.method != "untrained"]


def test_images_whose_license_forbids_it_are_left_out(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = run(tiny, tmp_path / "out", gallery=0)  # loads the plug-in
    object.__setattr__(datasets["toy_images"].card, "images_may_be_shown", False)
    try:
        run(tiny, tmp_path / "out", gallery=3)
    finally:
        object.__setattr__(datasets["toy_images"].card, "images_may_be_shown", True)
    gallery = store.gallery()
    assert gallery is not None and not gallery.shown and gallery.class_names
    assert load_file(store.gallery_images_file) == {}
    assert not datasets["inshop"].card.images_may_be_shown


def test_the_gallery_asks_the_guard(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise lf.errors.LockedTestSetError("the test set is locked")

    monkeypatch.setattr(_gallery, "test_view", refuse)
    assert vars(guard)["test_view"] is not refuse
    with pytest.raises(lf.errors.LockedTestSetError):
        run(tiny, tmp_path / "out", gallery=3)
