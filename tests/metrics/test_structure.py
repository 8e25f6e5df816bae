"""Structure metrics agree with loops over pairs, also on a collapsed space."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.oracles import metrics_structure as oracle

from levelfield.metrics import evaluate, spectrum, structure

STRUCTURE = ("rho", "rho_class", "pi_intra", "pi_inter", "pi_ratio", "alignment", "uniformity")


def sample(seed=0, n=60):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 8, n)
    return random.normal(size=(8, 5))[labels] + random.normal(size=(n, 5)), labels


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("piece", [7, 8192])
def test_they_are_what_the_papers_say(seed, distance, piece, monkeypatch):
    monkeypatch.setattr(structure, "PIECE", piece)
    monkeypatch.setattr(structure, "PAIR_NUMBERS", 200 if piece == 7 else 1 << 24)
    given, labels = sample(seed)
    rows = oracle.unit(given) if distance == "cosine" else given
    scores = evaluate(given, labels, metrics=STRUCTURE, distance=distance)
    intra, inter = oracle.pi_intra(rows, labels), oracle.pi_inter(rows, labels)
    expected = {
        "rho": oracle.rho(rows),
        "rho_class": oracle.rho_class(rows, labels),
        "pi_intra": intra,
        "pi_inter": inter,
        "pi_ratio": intra / inter,
        "alignment": oracle.alignment(rows, labels),
        "uniformity": oracle.uniformity(rows),
    }
    for name in STRUCTURE:
        assert scores[name] == pytest.approx(expected[name], rel=1e-9), name


def test_the_spectrum_is_sorted_and_sums_to_one():
    rows, _ = sample()
    shares = spectrum(rows)
    assert shares.shape == (5,)
    assert shares.sum() == pytest.approx(1)
    assert list(shares) == sorted(shares, reverse=True)
    values = np.linalg.svd(oracle.unit(rows), compute_uv=False)
    np.testing.assert_allclose(shares, values / values.sum())


def test_an_even_space_has_rho_zero_and_an_unused_direction_makes_it_infinite():
    assert evaluate(np.eye(6), [0] * 6, metrics=("rho",))["rho"] == pytest.approx(0)
    flat = np.concatenate([sample()[0][:, :4], np.zeros((60, 1))], axis=1)
    assert evaluate(flat, [0] * 60, metrics=("rho",))["rho"] == math.inf


def test_compression_raises_rho():
    """Revisiting Training Strategies: a space that uses few directions decays fast."""
    rows, labels = sample(n=200)
    narrow = rows * np.array([1, 1, 0.1, 0.1, 0.1])
    assert (
        evaluate(narrow, labels, metrics=("rho",))["rho"]
        > 3 * evaluate(rows, labels, metrics=("rho",))["rho"]
    )


def test_what_cannot_be_measured_is_nan():
    alone = evaluate(np.eye(3), [0, 1, 2], metrics=("pi_intra", "alignment"))
    assert all(math.isnan(value) for value in alone.values())
    assert math.isnan(evaluate(np.eye(3), [0, 0, 0], metrics=("pi_inter",))["pi_inter"])
    assert math.isnan(evaluate(np.ones((1, 2)), [0], metrics=("uniformity",))["uniformity"])
    assert evaluate(np.eye(3), [0, 1, 2], metrics=("rho_class",))["rho_class"] == math.inf


def test_one_large_class_is_done_in_steps():
    rows = np.random.default_rng(0).normal(size=(2100, 3))
    unit = oracle.unit(rows)
    away = np.sqrt(np.maximum(0, 2 - 2 * unit @ unit.T))
    expected = away.sum() / (2100 * 2099)
    assert evaluate(rows, np.zeros(2100, int), metrics=("pi_intra",))["pi_intra"] == pytest.approx(
        expected, abs=1e-6
    )
