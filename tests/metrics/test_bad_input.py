"""Bad input is named in one line, or has a documented answer; never a wrong number."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.helpers.built_in import built_in_names

from levelfield.core.errors import UsageError
from levelfield.metrics import evaluate, registry, resolve_metric, spectrum

ROWS = np.random.default_rng(0).normal(size=(6, 3))
LABELS = [0, 0, 1, 1, 2, 2]


def with_value(value):
    rows = ROWS.copy()
    rows[4, 1] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "labels", "options", "message"),
    [
        (with_value(np.nan), LABELS, {}, "embeddings row 4 holds NaN or infinity"),
        (with_value(-np.inf), LABELS, {}, "embeddings row 4 holds NaN or infinity"),
        (ROWS, LABELS[:5], {}, "embeddings has 6 rows but labels has 5"),
        (ROWS * np.eye(6)[0][:, None], LABELS, {}, "embeddings row 1 is all zeros"),
        (ROWS, LABELS, {"gallery": ROWS}, "gallery and gallery_labels belong together"),
        (ROWS, LABELS, {"gallery": ROWS[:0], "gallery_labels": []}, "gallery is empty"),
        (
            ROWS,
            LABELS,
            {"gallery": ROWS[:, :2], "gallery_labels": LABELS},
            "3 dimensions but the gallery has 2",
        ),
        (ROWS, LABELS, {"gallery": ROWS, "gallery_labels": LABELS[:2]}, "gallery has 6 rows but"),
        (ROWS, LABELS, {"gallery": with_value(np.nan), "gallery_labels": LABELS}, "gallery row 4 holds NaN"),
        (
            ROWS,
            LABELS,
            {"gallery": ROWS, "gallery_labels": list("aabbcc")},
            "both as numbers or both as strings",
        ),
        (ROWS[0], LABELS, {}, r"embeddings has shape \(3,\)"),
        (ROWS + 1j, LABELS, {}, "give real numbers"),
        (torch.complex(torch.ones(6, 3), torch.ones(6, 3)), LABELS, {}, "give real numbers"),
        (np.array([["a"]]), [0], {}, "give real numbers"),
        (ROWS, [LABELS], {}, r"labels has shape \(1, 6\)"),
        (ROWS, [0.5, 0, 1, 1, 2, 2], {}, "holds fractions"),
        (ROWS, [0, "a", 1, None, 2, 2], {}, "labels mixes types"),
        (ROWS, list(range(6)), {}, "no query has a relevant item"),
        (ROWS, LABELS, {"metrics": "map_at_r"}, "metrics is one string"),
        (ROWS, LABELS, {"metrics": ()}, "metrics is empty"),
        (ROWS, LABELS, {"metrics": ("map_at_rr",)}, 'did you mean "map_at_r"'),
        (ROWS, LABELS, {"metrics": ("recall_at_0",)}, "needs a K of at least 1"),
        (ROWS, LABELS, {"metrics": ("recall_at_K",)}, "needs a number for K"),
        (ROWS, LABELS, {"distance": "manhattan"}, 'unknown distance "manhattan"'),
        (ROWS, LABELS, {"metrics": ("nmi",), "cluster_seeds": 0}, "cluster_seeds is 0"),
    ],
)
def test_it_is_named(rows, labels, options, message):
    with pytest.raises(UsageError, match=message) as caught:
        evaluate(rows, labels, **options)
    assert "\n" not in str(caught.value)


def test_a_zero_vector_has_a_place_under_euclidean_distance():
    rows = np.array([[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [5.0, 5.1]])
    assert evaluate(rows, [0, 0, 1, 1], distance="euclidean")["precision_at_1"] == 1.0


def test_labels_may_be_strings_in_any_container():
    expected = dict(evaluate(ROWS, LABELS))
    for labels in (list("aabbcc"), np.array(list("aabbcc")), np.array(list("aabbcc"), dtype=object)):
        assert dict(evaluate(ROWS, labels)) == expected


def test_whole_numbers_as_floats_are_labels():
    assert dict(evaluate(ROWS, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0])) == dict(evaluate(ROWS, LABELS))


def test_k_beyond_the_gallery_keeps_its_meaning_and_is_noted():
    scores = evaluate(ROWS, LABELS, metrics=("recall_at_100", "precision_at_100", "map_at_100", "map"))
    assert scores["recall_at_100"] == 1.0
    assert scores["precision_at_100"] == pytest.approx(1 / 100)
    assert scores["map_at_100"] == pytest.approx(scores["map"])
    assert "K is larger than the 5 items" in scores.notes[0]


def test_enormous_and_tiny_numbers_do_not_overflow():
    for scale in (1e-300, 1e-30, 1e30, 1e150):
        for distance in ("cosine", "euclidean"):
            assert dict(evaluate(ROWS * scale, LABELS, distance=distance)) == dict(
                evaluate(ROWS, LABELS, distance=distance)
            )


def test_foreign_byte_order_is_read_right():
    assert dict(evaluate(ROWS.astype(">f8"), LABELS)) == dict(evaluate(ROWS, LABELS))


def test_the_spectrum_checks_its_input_too():
    with pytest.raises(UsageError, match="row 4 holds NaN"):
        spectrum(with_value(np.nan))


def test_a_metric_of_ones_own_can_be_registered():
    @registry.register("second_is_right_test", depth=2)
    def second_is_right(hits):
        """Count a hit on the second item."""
        return hits.count(hits.rank == 2)

    scores = evaluate([[0.0, 1], [0, 1.1], [0, 1.2]], [0, 0, 0], metrics=("second_is_right_test",))
    assert scores["second_is_right_test"] == 1.0
    assert resolve_metric("second_is_right_test").card.summary == "Count a hit on the second item."


def test_an_unknown_score_is_named():
    with pytest.raises(UsageError, match='"nmi" was not computed; name it in metrics'):
        evaluate(ROWS, LABELS)["nmi"]


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_what_is_given_is_never_changed(distance):
    rows, labels = ROWS.copy(), np.array(LABELS)
    names = [name.replace("_K", "_2") for name in built_in_names(registry)]
    evaluate(rows, labels, metrics=names, distance=distance)
    np.testing.assert_array_equal(rows, ROWS)
    np.testing.assert_array_equal(labels, LABELS)
