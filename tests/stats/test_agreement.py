"""Rank agreement equals scipy's tau-b, and its intervals are sensible."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

from levelfield.core.errors import UsageError
from levelfield.stats import rank_agreement


@pytest.mark.parametrize("seed", range(5))
def test_tau_is_scipys(seed: int) -> None:
    generator = np.random.default_rng(seed)
    one, other = (dict(enumerate(generator.integers(0, 6, 12).tolist())) for _ in range(2))
    first, second = ({str(k): float(v) for k, v in d.items()} for d in (one, other))
    expected = kendalltau(list(one.values()), list(other.values())).statistic
    assert rank_agreement(first, second).tau == pytest.approx(expected)


def test_the_interval_holds_tau_and_narrows_with_more_methods() -> None:
    generator = np.random.default_rng(0)
    widths = []
    for count in (8, 80):
        truth = generator.normal(size=count)
        one, other = (
            {str(k): float(v) for k, v in enumerate(truth + generator.normal(size=count))} for _ in "ab"
        )
        found = rank_agreement(one, other)
        assert found.low <= found.tau <= found.high
        widths.append(found.high - found.low)
    assert widths[1] < widths[0] / 2


def test_methods_that_only_one_has_are_left_out_and_two_are_too_few() -> None:
    assert rank_agreement({"a": 1, "b": 2, "c": 3, "x": 9}, {"c": 3, "b": 2, "a": 1}).methods == 3
    with pytest.raises(UsageError, match="at least 3"):
        rank_agreement({"a": 1, "b": 2}, {"a": 1, "b": 2})
