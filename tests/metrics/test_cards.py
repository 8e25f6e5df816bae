"""Metric cards: direction, label and unit."""

from __future__ import annotations

import pytest

from levelfield import metrics
from levelfield.core.errors import UsageError

DIRECTIONS = {
    True: {
        *("precision_at_1", "r_precision", "map_at_r", "map_c", "recall_at_K", "precision_at_K", "map_at_K"),
        *("map", "map_trapezoid", "mp_at_K", "mrr", "ndcg_at_K", "nmi", "ami", "f1"),
    },
    False: {"alignment", "uniformity"},
    None: {"rho", "rho_class", "pi_intra", "pi_inter", "pi_ratio"},
}


@pytest.mark.parametrize("name", metrics.registry.names())
def test_every_registered_metric_states_its_direction_label_and_unit(name: str) -> None:
    card = metrics.registry[name].card
    assert name in DIRECTIONS[card.higher_is_better], "state the direction here too, on purpose"
    assert card.label
    assert card.unit in {"percent", ""}


def test_a_family_prints_its_number() -> None:
    card = metrics.card("recall_at_8")
    assert (card.name, card.label, card.higher_is_better) == ("recall_at_8", "R@8", True)


def test_the_sign_of_a_selection_follows_the_direction() -> None:
    assert metrics.selection_sign("map_at_r") == 1
    assert metrics.selection_sign("alignment") == -1


def test_a_metric_without_a_direction_cannot_select() -> None:
    with pytest.raises(UsageError, match=r'"pi_ratio" cannot select.*such as map_at_r'):
        metrics.selection_sign("pi_ratio")
