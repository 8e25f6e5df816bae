"""No code path before confirmation can read a test image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import levelfield as lf
from levelfield import data
from levelfield.core.errors import LockedTestSetError
from levelfield.core.files import write_json
from levelfield.data import Dataset, MemoryImages
from levelfield.data.splits import create
from levelfield.data.views import development_view
from levelfield.protocol import guard, resolve_experiment
from levelfield.records import Selection, Store

CLASSES, SAMPLES = 24, 6


class WatchedImages(MemoryImages):
    """Dataset that records each read by the image's number in the full dataset, through every ``select``."""

    seen: list[int] = []  # noqa: RUF012 - shared on purpose by nested selections

    def __init__(self, pixels: Any, numbers: Any) -> None:
        super().__init__(pixels)
        self.numbers = numbers

    def read(self, row: int) -> Any:
        self.seen.append(int(self.numbers[row]))
        return super().read(row)

    def select(self, rows: Any) -> WatchedImages:
        return WatchedImages(self._pixels[rows], self.numbers[rows])


@data.register("watched")
def watched() -> Dataset:
    """Toy dataset whose reads are recorded."""
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, (CLASSES * SAMPLES, 1, 16, 16)).astype(np.uint8)
    return Dataset(
        name="watched",
        images=WatchedImages(pixels, np.arange(len(pixels))),
        labels=np.repeat(np.arange(CLASSES), SAMPLES).astype(np.int64),
        class_names=tuple(map(str, range(CLASSES))),
        fingerprint="watched",
    )


@pytest.fixture
def experiment(tiny: dict[str, Any]) -> lf.Experiment:
    WatchedImages.seen.clear()
    tiny |= {"dataset": {"name": "watched"}, "plugins": [], "methods": ["triplet", "normalized_softmax"]}
    return lf.Experiment.build(**tiny)


TEST_ROWS = set(range(CLASSES * SAMPLES // 2, CLASSES * SAMPLES))


@pytest.mark.slow
def test_search_and_selection_read_development_images_only(experiment: lf.Experiment, tmp_path: Path) -> None:
    store = Store(lf.run(experiment, tmp_path / "runs", search_only=True).path)
    assert WatchedImages.seen, "the search must have read something"
    assert not TEST_ROWS & set(WatchedImages.seen)
    assert not store.ledger_file.exists()


@pytest.mark.slow
def test_confirmation_reads_them_after_every_selection_is_frozen(
    experiment: lf.Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen_at_opening: list[Any] = []

    def open_test(store: Store, selection_file: Path, **options: Any) -> guard.TestPermit:
        assert not TEST_ROWS & set(WatchedImages.seen) or frozen_at_opening, "read before the first opening"
        frozen_at_opening.append(len(list((store.root / "selections").iterdir())))
        return guard.open_test(store, selection_file, **options)

    monkeypatch.setattr("levelfield.protocol.confirm._confirm.open_test", open_test)
    lf.run(experiment, tmp_path / "runs")
    assert set(WatchedImages.seen) >= TEST_ROWS
    assert frozen_at_opening == [3, 3, 3]  # two methods and the baseline, each time


def test_the_development_view_holds_no_test_image() -> None:
    dataset = watched()
    view = development_view(dataset, create("class_disjoint", dataset.labels, folds=2))
    assert len(view.dataset) == CLASSES * SAMPLES // 2
    images = view.dataset.images
    assert isinstance(images, WatchedImages)
    assert not TEST_ROWS & set(images.numbers.tolist())
    assert images._pixels.base is None, "a copy, not a window on the full array"
    with pytest.raises(IndexError):
        images.read(len(view.dataset))


def test_a_permit_needs_a_frozen_selection(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(LockedTestSetError, match="not frozen yet"):
        guard.open_test(store, tmp_path / "selections" / "none.json", reruns=[0])
    assert not store.ledger_file.exists()


def test_a_forged_or_changed_permit_is_refused(tmp_path: Path, experiment: lf.Experiment) -> None:
    resolved = resolve_experiment(experiment)
    spec = resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0)
    store = Store(tmp_path)
    selection = Selection(method="triplet", hyperparameters={"margin": 0.1})
    file = store.freeze(selection)

    forged = guard.TestPermit(file, selection.selection_id, store.ledger_file)
    with pytest.raises(LockedTestSetError, match="no opening"):
        guard.test_view(forged, spec, resolved.resources)

    permit = guard.open_test(store, file, reruns=[0])
    assert len(guard.test_view(permit, spec, resolved.resources)) == len(TEST_ROWS)

    write_json(file, selection.model_dump() | {"hyperparameters": {"margin": 0.2}})
    with pytest.raises(LockedTestSetError, match="changed after it was frozen"):
        guard.test_view(permit, spec, resolved.resources)


def test_every_opening_is_in_the_ledger(tmp_path: Path) -> None:
    store = Store(tmp_path)
    file = store.freeze(Selection(method="triplet"))
    for reruns in ([0, 1], [1], [0, 1, 2]):
        guard.open_test(store, file, reruns=reruns)
    first, second, third = store.ledger()
    assert [first.event, second.event] == ["opened", "reopened after an interruption"]
    assert third.event == "reruns added after a look"
    assert (second.previous, third.previous) == (first.line_id, second.line_id)
