"""Smaller codes of embeddings, against slow definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from levelfield.retrieval.codes import fit_codes

FITTED = torch.randn(400, 300, generator=torch.Generator().manual_seed(0)) + 0.3
ROWS = torch.randn(50, 300, generator=torch.Generator().manual_seed(1)) + 0.3
CODES = {code.name: code for code in fit_codes(FITTED)}


def test_sizes_are_those_of_the_stored_numbers() -> None:
    sizes = {name: code.bytes for name, code in CODES.items()}
    expected = {"PCA 256": 1024, "PCA 128": 512, "PCA 64": 256, "float16": 600, "int8": 300, "binary": 38}
    assert sizes == expected
    assert [code.name for code in fit_codes(FITTED[:100])][:1] == ["PCA 64"], "axes need as many images"
    assert [code.name for code in fit_codes(FITTED, pca=False)] == ["float16", "int8", "binary"]


@pytest.mark.parametrize("size", [256, 128, 64])
def test_pca_projects_on_the_principal_axes(size: int) -> None:
    fitted = FITTED.double().numpy()
    mean = fitted.mean(0)
    axes = np.linalg.svd(fitted - mean, full_matrices=False)[2][:size]
    expected = (ROWS.double().numpy() - mean) @ axes.T
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = CODES[f"PCA {size}"].apply(ROWS).double().numpy()
    assert np.abs(found @ found.T - expected @ expected.T).max() < 1e-5


def test_int8_takes_one_of_256_steps_per_dimension() -> None:
    unit = F.normalize(FITTED).double().numpy()
    low, high = unit.min(0), unit.max(0)
    found = CODES["int8"].apply(ROWS).double().numpy()
    for dimension in (0, 7, 299):
        steps = np.linspace(low[dimension], high[dimension], 256)
        for row, value in enumerate(F.normalize(ROWS).double().numpy()[:, dimension]):
            nearest = steps[np.abs(steps - value).argmin()]
            assert abs(found[row, dimension] - nearest) < (steps[1] - steps[0]) * 0.51


def test_binary_codes_are_ordered_as_by_the_hamming_distance() -> None:
    bits = (F.normalize(ROWS) > F.normalize(FITTED).mean(0)).numpy()
    hamming = (bits[:, None, :] != bits[None, :, :]).sum(2)
    found = F.normalize(CODES["binary"].apply(ROWS))
    assert torch.allclose(found @ found.T, 1 - torch.from_numpy(2 * hamming / 300).float(), atol=1e-5)


def test_a_dimension_without_spread_is_kept() -> None:
    flat = FITTED[:, :9].clone()
    flat[:, 3] = 0
    for code in fit_codes(flat):
        assert code.apply(flat[:5]).isfinite().all(), code.name
