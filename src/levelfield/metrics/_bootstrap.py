"""Bootstrap intervals of a mean over queries."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from levelfield.seeds import numpy_generator

Values = npt.NDArray[np.float64]


def bootstrap(
    values: Mapping[str, Values], *, resamples: int, seed: int, confidence: float = 0.95
) -> dict[str, tuple[float, float]]:
    """Percentile intervals of the mean of each measure's values (N,); NaN values are left out.

    All measures see the same resampled queries. Queries of one class are not independent, so the interval
    says how much the choice of queries matters, not how much the choice of classes does.

    Example:
        >>> low, high = bootstrap({"x": np.arange(100.0)}, resamples=200, seed=0)["x"]
        >>> low < 49.5 < high
        True
    """
    if not values:
        return {}
    table = np.stack(list(values.values()))
    table = table[:, ~np.isnan(table[0])]
    random = numpy_generator("metrics", "bootstrap", seed)
    count = table.shape[1]
    means = np.empty((resamples, len(table)))
    for number in range(resamples):
        means[number] = table[:, random.integers(count, size=count)].mean(1)
    edges = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return {name: (float(low), float(high)) for name, low, high in zip(values, *edges, strict=True)}
