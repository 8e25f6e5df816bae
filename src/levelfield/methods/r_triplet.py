"""R-Triplet of "Revisiting Training Strategies"."""

from __future__ import annotations

from levelfield.methods import register
from levelfield.methods._method import Method
from levelfield.methods._rho import PAPER, YEAR, rho_regularised


@register("r_triplet", paper=PAPER, year=YEAR)
def r_triplet() -> Method:
    """Triplet loss with rho-regularisation."""
    return rho_regularised("r_triplet", "triplet", cub200=0.4)
