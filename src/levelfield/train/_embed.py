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


def describe_unusable(embeddings: Tensor) -> str:
    """Return in a phrase what keeps embeddings (N x D) from a score under cosine distance; "" if nothing.

    Example:
        >>> describe_unusable(torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]))
        '2 of 3 embeddings are all zeros and have no direction'
    """
    not_finite = int((~torch.isfinite(embeddings).all(dim=1)).sum())
    if not_finite:
        return f"{not_finite} of {len(embeddings)} embeddings are not finite"
    zero = int((embeddings == 0).all(dim=1).sum())
    if not zero:
        return ""
    return f"{zero} of {len(embeddings)} embeddings are all zeros and have no direction"
