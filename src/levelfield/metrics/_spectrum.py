"""The singular-value spectrum of a space, for plots."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from levelfield.metrics._inputs import space_of
from levelfield.metrics._vectors import Distance, as_source, check_rows
from levelfield.metrics.structure import space_values


def spectrum(embeddings: Any, *, distance: Distance = "cosine") -> npt.NDArray[np.float64]:
    """Singular values (min(N, D),) of embeddings (N, D), largest first, as shares of their sum.

    Rows are scaled to unit length first under cosine distance; they are not centred.

    Example:
        >>> spectrum([[1.0, 0.0], [0.0, 3.0]])
        array([0.5, 0.5])
    """
    source = as_source("embeddings", embeddings)
    check_rows("embeddings", source, distance)
    labels = torch.zeros(len(source), dtype=torch.int64, device=source.device)
    with torch.no_grad():
        values = space_values(space_of(source, labels, 1, distance=distance))
    return np.asarray((values / values.sum()).cpu(), dtype=np.float64)
