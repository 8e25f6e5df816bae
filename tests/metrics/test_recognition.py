"""Global average precision agrees with a slow oracle; bad answers are named."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles import metrics as oracle

from levelfield.core.errors import UsageError
from levelfield.metrics.recognition import global_average_precision


@pytest.mark.parametrize("seed", range(5))
def test_it_agrees_with_the_oracle(seed):
    """Confidences are rounded, so that there are ties; some queries show nothing or are not answered."""
    random = np.random.default_rng(seed)
    names = [f"q{n}" for n in random.permutation(60)]
    truth = {name: set(random.integers(0, 4, random.integers(0, 3)).tolist()) for name in names}
    answers = {name: (int(random.integers(0, 4)), round(float(random.random()), 1)) for name in names[:50]}
    listed = [(name, label, confidence) for name, (label, confidence) in answers.items()]
    expected = oracle.global_average_precision(listed, truth)
    assert global_average_precision(answers, truth) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("answers", "truth", "message"),
    [
        ({"b": (1, 0.5)}, {"a": [1]}, 'query "b" is not in the solution'),
        ({"a": (1, float("nan"))}, {"a": [1]}, 'confidence of query "a" is NaN'),
        ({"a": (1, 0.5)}, {"a": []}, "no query of the solution shows a class"),
    ],
)
def test_bad_answers_are_named(answers, truth, message):
    with pytest.raises(UsageError, match=message):
        global_average_precision(answers, truth)
