"""Smaller codes of embeddings: fewer dimensions, or fewer bits per number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from levelfield.models import pca_head

PCA_SIZES = (256, 128, 64)


@dataclass(frozen=True)
class Code:
    """Code of embeddings.

    Attributes:
        name: Name, such as "PCA 128".
        bytes: Bytes of one embedding in this code.
        apply: Function from embeddings (N x D) to what a search sees of their codes (N x d, float32). Codes
            are compared by their cosine; for binary codes this is the order of the Hamming distance.
    """

    name: str
    bytes: int
    apply: Callable[[Tensor], Tensor]


def fit_codes(fitted_to: Tensor, *, pca: bool = True) -> list[Code]:
    """Return the codes for embeddings of this kind.

    Args:
        fitted_to: Embeddings (M x D) of other images, which axes, ranges and thresholds are taken from.
        pca: Whether to include codes with fewer dimensions.

    Example:
        >>> random = torch.Generator().manual_seed(0)
        >>> codes = fit_codes(torch.randn(300, 80, generator=random))
        >>> [(code.name, code.bytes) for code in codes]
        [('PCA 64', 256), ('float16', 160), ('int8', 80), ('binary', 10)]
    """
    width = fitted_to.shape[1]
    unit = F.normalize(fitted_to.float())
    sizes = [size for size in PCA_SIZES if size < width and size <= len(fitted_to)] if pca else []
    codes = []
    if sizes:
        head = pca_head(fitted_to.float(), size=max(sizes), normalize=False).eval()
        codes += [Code(f"PCA {size}", 4 * size, _Reduced(head, size)) for size in sizes]
    low, high = unit.amin(0), unit.amax(0)
    return [
        *codes,
        Code("float16", 2 * width, lambda rows: F.normalize(rows.float()).half().float()),
        Code("int8", width, _Rounded(low, high)),
        Code("binary", -(-width // 8), _Signs(unit.mean(0))),
    ]


@dataclass(frozen=True)
class _Reduced:
    """The first principal axes; smaller sizes are a part of the larger ones."""

    head: torch.nn.Module
    size: int

    def __call__(self, rows: Tensor) -> Tensor:
        with torch.inference_mode():
            projected: Tensor = self.head(rows.float())
        return F.normalize(projected[:, : self.size])


@dataclass(frozen=True)
class _Rounded:
    """256 steps between the smallest and the largest value of each dimension; others are clipped."""

    low: Tensor
    high: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        step = ((self.high - self.low) / 255).clamp_min(1e-12)
        codes = ((F.normalize(rows.float()) - self.low) / step).round().clamp(0, 255)
        return codes * step + self.low


@dataclass(frozen=True)
class _Signs:
    """One bit for each dimension: above the mean or not."""

    mean: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        return torch.where(F.normalize(rows.float()) > self.mean, 1.0, -1.0)
