"""Cards of the embedding losses are complete, and their search spaces include the published optima."""

from __future__ import annotations

import inspect

import pytest
from tests.oracles.losses_embedding_cases import CASES

from levelfield import losses
from levelfield.losses._module import RankingLoss

NAMES = sorted({case.name for case in CASES})

# Reality check, table of optimal hyperparameters; deep dive and revisiting, the settings they name.
PUBLISHED: dict[str, dict[str, list[float]]] = {
    "contrastive": {
        "pos_margin": [-0.2, 0.2652, 0.2850, 0.2227],
        "neg_margin": [0.3841, 0.5409, 0.7694],
    },
    "triplet": {"margin": [0.0961, 0.1190, 0.0451, 0.1368, 0.1, 0.2]},
    "ntxent": {"temperature": [0.0091, 0.0219, 0.0002, 0.0415]},
    "margin": {
        "margin": [0.0878, 0.0781, 0.0915, 0.0674, 0.0779, -0.0204, 0.2, 0.5],
        "beta": [0.7838, 1.3164, 1.1072, 0.9796, 0.1097, 0.6, 1.2],
    },
    "fastap": {"num_bins": [17, 27, 16, 86]},
    "snr_contrastive": {
        "pos_margin": [0.3264, 0.1670, 0.3759, 0.1182],
        "neg_margin": [0.8446, 0.9337, 1.0831, 0.6822],
        "regularizer_weight": [0.1382, 0.0, 0.4744],
    },
    "snr_triplet": {"margin": [0.2], "regularizer_weight": [0.005]},
    "multi_similarity": {
        "alpha": [0.01, 14.35, 8.49, 17.97, 2.0],
        "beta": [50.60, 75.83, 57.38, 156.61, 40.0],
        "base": [0.56, 0.66, 0.41, 0.85, 0.5],
    },
    "angular": {"alpha": [45.0, 40.0], "angular_weight": [2.0], "l2": [0.005]},
    "npair": {"l2": [0.005, 0.02]},
    "lifted_structure": {"margin": [0.5, 1.0]},
    "generalized_lifted": {"margin": [1.0], "l2": [0.005]},
    "histogram": {"num_bins": [65, 11]},
    "quadruplet": {"margin_1": [1.0, 0.2], "margin_2": [0.5, 0.2]},
    "circle": {"m": [0.25, 0.4], "gamma": [256.0, 128.0, 80.0]},
}


@pytest.mark.parametrize("name", NAMES)
def test_card_is_complete(name: str) -> None:
    card = losses.registry[name].card
    assert card.kind == "embedding"
    assert card.paper
    assert card.year is not None
    assert card.summary
    assert card.space


@pytest.mark.parametrize("name", NAMES)
def test_search_space_names_options_and_contains_their_defaults(name: str) -> None:
    entry = losses.registry[name]
    for option, dimension in entry.card.space.items():
        assert dimension.contains(entry.parameters[option].default), option


@pytest.mark.parametrize("name", NAMES)
def test_card_says_whether_a_miner_is_taken(name: str) -> None:
    entry = losses.registry[name]
    assert inspect.isclass(entry.target)
    assert (entry.card.tuples is None) == issubclass(entry.target, RankingLoss)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_search_space_reaches_the_published_values(name: str) -> None:
    space = losses.registry[name].card.space
    for option, values in PUBLISHED[name].items():
        assert all(space[option].contains(value) for value in values), option


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_has_a_learning_rate_of_its_own_if_it_owns_parameters(name: str) -> None:
    owns = any(True for _ in losses.create(name).parameters())
    assert owns == losses.registry[name].card.own_lr == (name in {"margin", "siglip"})


def test_a_printed_loss_shows_its_options() -> None:
    assert "temperature=0.3" in repr(losses.create("ntxent", temperature=0.3))
