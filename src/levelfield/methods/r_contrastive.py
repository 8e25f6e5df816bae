"""R-Contrastive of "Revisiting Training Strategies"."""

from __future__ import annotations

from levelfield.methods import register
from levelfield.methods._method import Method
from levelfield.methods._rho import PAPER, YEAR, rho_regularised


@register("r_contrastive", paper=PAPER, year=YEAR)
def r_contrastive() -> Method:
    """Contrastive loss with rho-regularisation."""
    return rho_regularised("r_contrastive", "contrastive", cub200=0.4)
