from __future__ import annotations

from types import ModuleType

import pytest

from levelfield import losses, miners
from levelfield.analysis.published import optima, optimum, ranges
from levelfield.core.errors import UsageError

SUPPLEMENT = {  # number of hyperparameters of the 14 methods in the supplement's table
    "contrastive": 2,
    "triplet": 1,
    "ntxent": 1,
    "proxy_nca": 2,
    "margin": 3,
    "margin_class": 3,
    "normalized_softmax": 2,
    "cosface": 3,
    "arcface": 3,
    "fastap": 1,
    "snr_contrastive": 3,
    "multi_similarity": 3,
    "multi_similarity_miner": 4,
    "soft_triple": 5,
}
SETTINGS = [("cub200", 32), ("cars196", 32), ("sop", 32), ("cub200", 256)]


@pytest.mark.slow
@pytest.mark.parametrize("method", SUPPLEMENT)
@pytest.mark.parametrize(("dataset", "batch"), SETTINGS)
def test_all_14_methods_in_all_4_settings(method, dataset, batch):
    found = optimum(method, dataset, batch=batch)
    missing = method == "soft_triple" and dataset == "sop"  # its reg_weight is "N/A"
    assert len(found) == SUPPLEMENT[method] - missing


def test_spot_checks_of_the_supplement():
    assert optimum("contrastive", "cub200") == {"pos_margin": -0.2, "neg_margin": 0.3841}
    assert optimum("ntxent", "sop") == {"temperature": 0.0002}
    assert optimum("margin", "cub200", batch=256) == {"loss_lr": 1e-6, "margin": 0.0674, "beta": 0.9762}
    assert optimum("margin_class", "cub200", batch=256)["margin"] == -0.0204
    assert optimum("arcface", "cars196") == {"loss_lr": 7.39e-06, "margin": 20.52, "scale": 49.5}
    assert optimum("multi_similarity_miner", "sop") == {
        "alpha": 15.94,
        "beta": 156.61,
        "base": 0.72,
        "miner.epsilon": 0.34,
    }
    assert "reg_weight" not in optimum("soft_triple", "sop")
    bins = optimum("fastap", "cub200", batch=256)["num_bins"]
    assert bins == 86
    assert isinstance(bins, int)


def test_what_is_in_other_units_in_print_is_converted_and_says_so():
    assert optimum("arcface", "cub200", source="revisiting")["margin"] == pytest.approx(28.6479)
    assert optimum("angular", "cub200", source="revisiting")["alpha"] == 45
    assert optimum("soft_triple", "cub200", source="revisiting")["gamma"] == 0.1  # divides, as ours
    assert optimum("soft_triple", "cub200", source="deep-dive")["gamma"] == 0.1  # printed as 10
    for row in optima():
        try:
            same = float(row.printed) == row.value
        except ValueError:
            same = False
        assert same or row.note or row.value is None or row.printed in ("10^-5", "as N-Pair"), row


def test_revisiting_has_two_betas():
    assert optimum("margin", "cub200", source="revisiting")["beta"] == 1.2
    assert optimum("margin", "cub200", source="revisiting", variant="beta=0.6")["beta"] == 0.6
    best = {
        d: optimum("r_margin", d, source="revisiting", batch=112)["beta"]
        for d in ("cub200", "cars196", "sop")
    }
    assert best == {"cub200": 0.6, "cars196": 0.6, "sop": 1.2}
    assert optimum("r_margin", "cub200", source="revisiting", variant="beta=1.2")["miner.p_switch"] == 0.35
    assert optimum("histogram", "sop", source="revisiting") == {"num_bins": 11}


def test_the_thesis_optima_lie_in_its_ranges():
    grid = {(r.method, r.parameter): r for r in ranges(source="deep-dive-fixed")}
    assert len(grid) == 11
    for row in optima(source="deep-dive-fixed"):
        searched = grid[row.method, row.parameter]
        assert float(row.printed) == searched.optimum
        assert searched.low <= searched.optimum <= searched.high
        assert searched.step is not None
        steps = searched.optimum / searched.step
        assert abs(steps - round(steps)) < 1e-6 or "not on a grid" in searched.note


def test_the_thesis_optima_are_the_reality_checks_rounded():
    """Two searches that cannot have shared a grid end at the same CUB values: worth knowing, so shown."""
    for method in ("multi_similarity_miner", "soft_triple"):
        found = {row.parameter: float(row.printed) for row in optima(source="deep-dive-fixed", method=method)}
        for parameter, value in optimum(method, "cub200").items():
            assert found[parameter] == pytest.approx(value, rel=0.08)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "tripplet", "dataset": "cub200"}, 'did you mean "triplet"'),
        (
            {"method": "cosface", "dataset": "cub200", "source": "revisiting"},
            "choose another source: real",
        ),
        ({"method": "triplet", "dataset": "sop", "batch": 256}, "with batch 256; choose from 32"),
        ({"method": "triplet", "dataset": "cub200", "variant": "x"}, 'no variant "x" of triplet'),
    ],
)
def test_what_is_not_published_is_an_error_with_a_remedy(arguments, message):
    with pytest.raises(UsageError, match=message):
        optimum(**arguments)


RECIPES = {
    "margin_class": "margin",
    "multi_similarity_miner": "multi_similarity",
    "r_contrastive": "contrastive",
    "r_margin": "margin",
    "r_snr": "snr_triplet",
    "r_triplet": "triplet",
}


@pytest.mark.parametrize("method", sorted({row.method for row in optima()}))
def test_names_are_those_of_our_losses_and_miners(method):
    name = RECIPES.get(method, method)
    home = losses.registry if name in losses.registry.names() else miners.registry
    known = set(home[name].parameters)
    for row in optima(method=method):
        if row.parameter.startswith("miner."):
            miner = "rho_switch" if method.startswith("r_") else "multi_similarity"
            assert row.parameter.removeprefix("miner.") in miners.registry[miner].parameters
        elif row.parameter != "loss_lr":
            assert row.parameter in known, f"{method} has {sorted(known)}"


def test_published_values_lie_in_our_search_spaces():
    """They can be the first trial of a search; the exception is a miner's range that ends at 0.5."""
    outside = set()
    for row in optima():
        name, parameter = RECIPES.get(row.method, row.method), row.parameter
        part: ModuleType = losses
        if parameter.startswith("miner."):
            part, parameter = miners, parameter.removeprefix("miner.")
        if name in part.registry.names() and row.value is not None:
            dimension = part.registry[name].card.space.get(parameter)
            if dimension is not None and not dimension.contains(row.value):
                outside.add((row.method, row.dataset, row.parameter, row.value))
    assert outside <= {("multi_similarity_miner", "cars196", "miner.epsilon", 0.72)}
