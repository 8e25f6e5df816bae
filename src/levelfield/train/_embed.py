"""Embeddings of many rows, in batches, without gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from levelfield.data import Rows
from levelfield.train._devices import to_device
from levelfield.train._inputs import Inputs


@torch.inference_mode()
def embed(
    forward: Callable[[Tensor], Tensor], inputs: Inputs, rows: Rows, *, batch_size: int, device: str = "cpu"
) -> Tensor:
    """Return the embeddings (len(rows) x D) of ``rows``, as float32 on the CPU.

    The caller sets the network to evaluation mode.
    """
    plan = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    return torch.cat([forward(to_device(batch, device)).float().cpu() for batch in inputs.evaluate(plan)])
