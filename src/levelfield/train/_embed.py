"""Embedding many rows, in batches, without gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from levelfield.data import Rows
from levelfield.train._inputs import Inputs


@torch.inference_mode()
def embed(
    forward: Callable[[Tensor], Tensor], inputs: Inputs, rows: Rows, *, batch_size: int, device: str = "cpu"
) -> Tensor:
    """Embeddings (len(rows) x D) of ``rows``, as float32 on the CPU.

    The caller puts the network into evaluation mode.
    """
    parts = []
    for start in range(0, len(rows), batch_size):
        batch = inputs.evaluate(np.asarray(rows[start : start + batch_size])).to(device)
        parts.append(forward(batch).float().cpu())
    return torch.cat(parts)
