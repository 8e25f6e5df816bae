"""R-SNR of "Revisiting Training Strategies"."""

from __future__ import annotations

from levelfield.methods import register
from levelfield.methods._method import Method
from levelfield.methods._rho import PAPER, YEAR, rho_regularised


@register("r_snr", paper=PAPER, year=YEAR)
def r_snr() -> Method:
    """SNR triplet loss with rho-regularisation."""
    return rho_regularised("r_snr", "snr_triplet", cub200=0.3)
