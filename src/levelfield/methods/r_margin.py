"""R-Margin of "Revisiting Training Strategies"."""

from __future__ import annotations

from levelfield.methods import register
from levelfield.methods._method import Method
from levelfield.methods._rho import PAPER, YEAR, rho_regularised


@register("r_margin", paper=PAPER, year=YEAR)
def r_margin() -> Method:
    """Margin loss with rho-regularisation."""
    return rho_regularised("r_margin", "margin", cub200=0.35)  # that of beta = 1.2, our default
