"""Where a trunk's weights come from."""

from __future__ import annotations

from levelfield.errors import UsageError
from levelfield.models._trunk import Trunk


def load_weights(trunk: Trunk, weights: str) -> None:
    """Fill ``trunk`` with the weights named by ``weights``; "none" leaves its initialisation."""
    if weights != "none":
        raise UsageError(f'trunk {trunk.name}: unknown weights "{weights}"')
