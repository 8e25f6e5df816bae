"""rho-regularised methods: a tuple loss on distance-weighted tuples, some of them switched."""

from __future__ import annotations

from levelfield.methods._method import Method

PAPER = (
    "Roth et al., Revisiting Training Strategies and Generalization Performance in Deep Metric Learning, ICML"
)
YEAR = 2020


def rho_regularised(name: str, loss: str, *, cub200: float) -> Method:
    """``loss`` with distance-weighted mining and p_switch, whose default depends on the dataset.

    Args:
        name: Of the method.
        loss: The tuple loss.
        cub200: p_switch on CUB200-2011 (Table 4 of the paper); it is 0.35 on CARS196 and 0.15 on Stanford
            Online Products for all of them (Tables 5 and 6).
    """
    p_switch = {"cub200": cub200, "cars196": 0.35, "sop": 0.15}
    return Method(
        name=name,
        loss=loss,
        miner="rho_switch",
        published={dataset: {"miner.p_switch": value} for dataset, value in p_switch.items()},
    )
