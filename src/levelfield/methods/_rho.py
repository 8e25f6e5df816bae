"""rho-regularised methods: a tuple loss on distance-weighted tuples, some of them switched."""

from __future__ import annotations

from levelfield.methods._method import Method

PAPER = (
    "Roth et al., Revisiting Training Strategies and Generalization Performance in Deep Metric Learning, ICML"
)
YEAR = 2020

# p_switch as published with the code of the paper; CUB is given as 0.3 to 0.4.
P_SWITCH = {"cub200": 0.35, "cars196": 0.35, "sop": 0.15}


def rho_regularised(name: str, loss: str) -> Method:
    """``loss`` with distance-weighted mining and p_switch, whose default depends on the dataset."""
    return Method(
        name=name,
        loss=loss,
        miner="rho_switch",
        published={dataset: {"miner.p_switch": value} for dataset, value in P_SWITCH.items()},
    )
