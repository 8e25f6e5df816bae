"""Split plans: disjoint, covering, deterministic, of the published sizes; errors for impossible options."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles.folds import k_fold, mlrc_ring

from levelfield.core.errors import UsageError
from levelfield.data import splits
from levelfield.data.splits import Fold, SplitPlan

Labels = npt.NDArray[np.int64]
CLASS_PLANS: dict[str, dict[str, Any]] = {
    "class_disjoint": {"folds": 3},
    "shuffled_classes": {"folds": 3, "seed": 5},
    "fixed_ratio": {"train_fraction": 0.7},
    "mlrc": {"folds": 3},
}


def classes_in(labels: Labels, rows: Labels) -> list[int]:
    return sorted({int(label) for label in labels[rows]})


@st.composite
def labels(draw: st.DrawFn) -> Labels:
    """At least eight classes of two to five images, with gaps in the class ids, in any order of rows."""
    ids = draw(st.lists(st.integers(0, 60), min_size=8, max_size=20, unique=True))
    rows = [label for label in ids for _ in range(draw(st.integers(2, 5)))]
    return np.array(draw(st.permutations(rows)), dtype=np.int64)


@settings(deadline=None)
@given(labels(), st.sampled_from(sorted(CLASS_PLANS)))
def test_class_plans_are_disjoint_covering_and_deterministic(labels: Labels, name: str) -> None:
    plan = splits.create(name, labels, **CLASS_PLANS[name])
    everything = np.arange(len(labels))
    for fold in plan.folds:
        parts = [fold.train, fold.validation, plan.test]
        assert np.array_equal(np.sort(np.concatenate(parts)), everything)
        owners = [set(classes_in(labels, part)) for part in parts]
        assert sum(len(owner) for owner in owners) == len(set().union(*owners))
        assert all(len(part) and np.all(np.diff(part) > 0) and part.dtype == np.int64 for part in parts)
    assert np.array_equal(np.union1d(plan.development, plan.test), everything)
    assert not np.intersect1d(plan.development, plan.test).size
    assert_same(plan, splits.create(name, labels, **CLASS_PLANS[name]))


def assert_same(one: SplitPlan, other: SplitPlan) -> None:
    assert np.array_equal(one.test, other.test) and len(one.folds) == len(other.folds)
    for fold, twin in zip(one.folds, other.folds, strict=True):
        assert np.array_equal(fold.train, twin.train) and np.array_equal(fold.validation, twin.validation)


@settings(deadline=None)
@given(labels(), st.integers(2, 4))
def test_class_disjoint_and_mlrc_agree_with_the_loops(labels: Labels, folds: int) -> None:
    classes = sorted({int(label) for label in labels})
    plan = splits.create("class_disjoint", labels, folds=folds)
    development = classes[: len(classes) - len(classes) // 2]
    held_out = [classes_in(labels, fold.validation) for fold in plan.folds]
    assert held_out == k_fold(development, folds)
    old = splits.create("mlrc", labels, folds=folds)
    ring = mlrc_ring(classes[: len(classes) // 2], folds)
    for fold, (train, validation) in zip(old.folds, ring, strict=True):
        assert classes_in(labels, fold.train) == sorted(train)
        assert classes_in(labels, fold.validation) == sorted(validation)


@settings(deadline=None)
@given(labels(), st.sampled_from(["class_disjoint", "shuffled_classes"]))
def test_every_development_class_validates_once(labels: Labels, name: str) -> None:
    plan = splits.create(name, labels, folds=4)
    held_out = np.concatenate([fold.validation for fold in plan.folds])
    assert np.array_equal(np.sort(held_out), plan.development)


@pytest.mark.parametrize(
    ("num_classes", "train", "validation", "test", "covered"),
    [(200, 75, 25, 100, 100), (196, 74, 24, 98, 96), (22634, 8488, 2829, 11317, 11316)],
    ids=["cub200", "cars196", "sop"],
)
def test_mlrc_has_the_published_sizes(
    num_classes: int, train: int, validation: int, test: int, covered: int
) -> None:
    labels = np.repeat(np.arange(num_classes), 2)
    plan = splits.create("mlrc", labels)
    for fold in plan.folds:
        assert len(fold.train) == 2 * train and len(fold.validation) == 2 * validation
    assert len(plan.test) == 2 * test
    assert len(np.unique(np.concatenate([fold.validation for fold in plan.folds]))) == 2 * covered
    last = labels[plan.folds[0].validation]
    assert last.max() == num_classes // 2 - 1, "fold 0 validates on the last quarter"


def test_shuffling_depends_on_the_seed_and_leaves_the_test_alone() -> None:
    labels = np.repeat(np.arange(40), 2)
    one, other = (splits.create("shuffled_classes", labels, seed=seed) for seed in (0, 1))
    assert len(one.folds) == 10
    assert not np.array_equal(one.folds[0].validation, other.folds[0].validation)
    assert np.array_equal(one.test, other.test) and labels[one.test].min() == 20


@pytest.mark.parametrize("ratio", [0.7, 0.8, 0.9, 0.95])
def test_fixed_ratio_cuts_the_development_classes(ratio: float) -> None:
    plan = splits.create("fixed_ratio", np.repeat(np.arange(200), 2), train_fraction=ratio)
    assert len(plan.folds) == 1
    assert len(plan.folds[0].train) == round(200 * ratio)
    shuffled = splits.create("fixed_ratio", np.repeat(np.arange(200), 2), train_fraction=ratio, seed=0)
    assert len(shuffled.folds[0].train) == round(200 * ratio)
    assert not np.array_equal(shuffled.folds[0].train, plan.folds[0].train)


def test_the_official_test_set_is_kept_unless_a_fraction_is_given() -> None:
    labels = np.repeat(np.arange(10), 2)
    is_test = labels < 3
    official = splits.create("class_disjoint", labels, is_test=is_test)
    assert classes_in(labels, official.test) == [0, 1, 2]
    assert official.folds[0].validation.min() == 6
    cut = splits.create("class_disjoint", labels, is_test=is_test, test_fraction=0.2)
    assert classes_in(labels, cut.test) == [8, 9]


def test_no_validation_is_leaky_and_must_be_asked_for() -> None:
    labels = np.repeat(np.arange(6), 2)
    with pytest.raises(UsageError, match="allow_test_feedback: true"):
        splits.create("none", labels)
    plan = splits.create("none", labels, allow_test_feedback=True)
    assert plan.leaky and "leaky" in plan.describe()
    assert np.array_equal(plan.folds[0].validation, plan.test)
    assert np.array_equal(plan.development, plan.folds[0].train)
    assert not splits.create("class_disjoint", labels, folds=2).leaky


@settings(deadline=None)
@given(st.integers(2, 6), st.integers(2, 4), st.integers(0, 3))
def test_closed_set_puts_every_class_into_every_part(num_classes: int, folds: int, seed: int) -> None:
    labels = np.tile(np.arange(num_classes), 4 * folds + 1)
    plan = splits.create("closed_set", labels, folds=folds, seed=seed)
    everyone = list(range(num_classes))
    for fold in plan.folds:
        parts = [fold.train, fold.validation, plan.test]
        assert all(classes_in(labels, part) == everyone for part in parts)
        assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))
    sizes = [len(fold.validation) for fold in plan.folds]
    assert max(sizes) - min(sizes) <= 1
    assert_same(plan, splits.create("closed_set", labels, folds=folds, seed=seed))


def test_closed_set_keeps_to_an_official_test_set() -> None:
    labels = np.tile(np.arange(3), 10)
    is_test = np.arange(30) < 12
    plan = splits.create("closed_set", labels, is_test=is_test, folds=3)
    assert np.array_equal(plan.test, np.arange(12))


def test_predefined_takes_the_marks_as_they_are() -> None:
    labels = np.repeat(np.arange(3), 4)
    rows = np.arange(12)
    plan = splits.create("predefined", labels, is_test=rows % 4 == 3, is_validation=rows % 4 == 2)
    assert plan.folds[0].train.tolist() == [0, 1, 4, 5, 8, 9]
    assert plan.folds[0].validation.tolist() == [2, 6, 10] and plan.test.tolist() == [3, 7, 11]


def test_a_plan_states_its_sizes() -> None:
    labels = np.repeat(np.arange(14), 3)
    assert splits.create("class_disjoint", labels, folds=2).describe(labels) == (
        "class_disjoint, 2 folds: train 9 to 12 images of 3 to 4 classes, "
        "validation 9 to 12 images of 3 to 4 classes, test 21 images of 7 classes"
    )


EIGHT = np.repeat(np.arange(8), 2)
HALF = EIGHT >= 4


@pytest.mark.parametrize(
    ("name", "labels", "options", "message"),
    [
        ("class_disjoint", EIGHT[:6], {}, "2 development classes cannot make 4 folds; use folds=2"),
        ("class_disjoint", EIGHT, {"folds": 1}, "folds must be at least 2"),
        ("class_disjoint", EIGHT[1:], {}, r"1 of 8 classes has fewer than 2 images \(0\)"),
        ("class_disjoint", EIGHT, {"test_fraction": 1.5}, "test_fraction is 1.5; it must be between 0 and 1"),
        ("class_disjoint", EIGHT, {"test_fraction": 0.1}, "leaves no test class"),
        ("class_disjoint", EIGHT, {"is_test": HALF[:3]}, r"is_test has shape \(3,\)"),
        ("class_disjoint", EIGHT, {"is_test": HALF & False}, "marks 0 of 16 samples as test"),
        (
            "class_disjoint",
            EIGHT,
            {"is_test": np.arange(16) % 2 == 0},
            "8 classes .such as 0. are in both the off",
        ),
        ("class_disjoint", EIGHT, {"fold": 3}, 'no parameter "fold"; did you mean "folds"'),
        ("class_disjont", EIGHT, {}, 'unknown split plan "class_disjont"; did you mean "class_disjoint"'),
        ("class_disjoint", EIGHT[:0], {}, "give a list of class ids"),
        ("mlrc", EIGHT[:12], {}, "3 development classes cannot make 4 folds"),
        ("mlrc", EIGHT[1:], {}, "retrieval needs a second image"),
        ("fixed_ratio", EIGHT, {"train_fraction": 0.99}, "no class to validate on"),
        ("fixed_ratio", EIGHT, {"train_fraction": 0.01}, "no class to train on"),
        ("closed_set", EIGHT, {}, "class 0 has 2 images.*each part needs two: use fewer folds"),
        ("closed_set", EIGHT, {"folds": 1}, "folds must be at least 2"),
        ("predefined", EIGHT, {}, "needs test samples, but the dataset has none"),
        ("predefined", EIGHT, {"is_test": HALF}, "needs validation samples"),
        (
            "predefined",
            EIGHT,
            {"is_test": HALF, "is_validation": HALF},
            "8 samples .such as row 8. are marked",
        ),
        ("predefined", EIGHT, {"is_test": HALF, "is_validation": ~HALF}, "mark some as training"),
    ],
)
def test_what_cannot_be_is_refused(name: str, labels: Labels, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        splits.create(name, labels, **options)


def test_classes_of_one_image_can_be_kept_on_purpose() -> None:
    assert splits.create("class_disjoint", EIGHT[1:], folds=2, min_images=1).folds


ROWS = np.arange(12)
SOUND = SplitPlan("mine", (Fold(ROWS[:4], ROWS[4:8]),), ROWS[8:])


def with_fold(train: Any = SOUND.folds[0].train, validation: Any = SOUND.folds[0].validation) -> SplitPlan:
    return replace(SOUND, folds=(SOUND.folds[0], Fold(train, validation)))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (with_fold(train=ROWS[:5]), "fold 1 has 1 row in both training and validation, such as row 4"),
        (with_fold(validation=ROWS[6:10]), "fold 1 has 2 rows in both validation and the test set"),
        (
            with_fold(train=ROWS[[0, 11]]),
            "fold 1 has 1 row in both training and the test set",
        ),
        (replace(with_fold(train=ROWS[[0, 11]]), leaky=True), "in both training and the test set"),
        (with_fold(train=ROWS[:0]), "training of fold 1 is empty"),
        (with_fold(validation=ROWS[:0]), "validation of fold 1 is empty"),
        (replace(SOUND, test=ROWS[:0]), "the test set is empty"),
        (replace(SOUND, test=np.array([8, 12])), "the test set contains row 12; valid are 0 to 11"),
        (with_fold(train=np.array([-1, 0])), "training of fold 1 contains row -1"),
        (with_fold(train=np.array([0, 0])), "contains a row twice"),
        (with_fold(train=ROWS[:4].astype(float)), "training of fold 1 is float64"),
        (with_fold(train=np.arange(12) < 4), "training of fold 1 is bool"),
        (with_fold(train=[0, 1]), "training of fold 1 is list"),
        (replace(SOUND, folds=()), "at least one Fold"),
        (None, "did not return a SplitPlan"),
    ],
)
def test_a_plan_of_a_users_own_is_checked(monkeypatch: pytest.MonkeyPatch, plan: Any, message: str) -> None:
    monkeypatch.setattr(splits.registry, "create", lambda name, *_, **__: plan)
    with pytest.raises(UsageError, match=message):
        splits.create("mine", np.repeat(np.arange(6), 2))


def test_a_leaky_plan_may_validate_on_the_test_set(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = replace(with_fold(validation=SOUND.test), leaky=True)
    monkeypatch.setattr(splits.registry, "create", lambda name, *_, **__: plan)
    assert splits.create("mine", np.repeat(np.arange(6), 2)) is plan
