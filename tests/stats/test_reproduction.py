"""A faithful reproduction is consistent, an unfaithful one is different."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_ind
from tests.oracles.score_worlds import likely

from levelfield.core.errors import UsageError
from levelfield.stats import compare_reproduction


def test_one_number_is_students_two_sample_test():
    old, new = [0.50, 0.52, 0.51], [0.53, 0.55, 0.52]
    (number,) = compare_reproduction({"a": old}, {"a": new})
    assert number.p_adjusted == pytest.approx(ttest_ind(old, new).pvalue)
    assert number.verdict == "consistent"


def test_each_verdict():
    before = {"same": [0.1, 0.2], "moved": [0.1, 0.11, 0.1], "gone": [0.3], "net": [0.5], "shifted": [0.5]}
    after = {"same": [0.1, 0.2], "moved": [0.9, 0.91, 0.9], "net": [0.5004], "shifted": [0.52]}
    found = {number.key: number.verdict for number in compare_reproduction(before, after)}
    assert found == {
        "same": "identical",
        "moved": "different",
        "gone": "missing",
        "net": "consistent",
        "shifted": "different",
    }


def test_bad_input():
    with pytest.raises(UsageError, match="no score of 'a'"):
        compare_reproduction({"a": []}, {})
    with pytest.raises(UsageError, match="alpha"):
        compare_reproduction({"a": [1.0]}, {"a": [1.0]}, alpha=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(("methods", "reruns"), [(2, 3), (14, 3), (14, 10)])
def test_false_alarms_in_the_whole_repetition(methods, reruns):
    """Version 0.1 called almost every reproduction of 14 methods different."""
    generator = np.random.default_rng(reruns)
    names = [(method, metric) for method in range(methods) for metric in range(4)]
    groups = {name: name[1] for name in names}
    alarms, caught, trials = 0, 0, 200

    def scores():
        shared = generator.standard_normal((1, 1, reruns))
        own = generator.standard_normal((methods, 1, reruns))
        luck = shared + own + 0.5 * generator.standard_normal((methods, 4, reruns))
        return dict(zip(names, luck.reshape(-1, reruns).tolist(), strict=True))

    for _ in range(trials):
        before, after = scores(), scores()
        alarms += any(
            number.verdict == "different" for number in compare_reproduction(before, after, groups=groups)
        )
        after[0, 0] = [value + 15 for value in after[0, 0]]
        caught += compare_reproduction(before, after, groups=groups)[0].verdict == "different"
    assert alarms <= likely(0.05, trials)[1]
    assert caught > 0.8 * trials


def test_reruns_that_are_all_alike_may_differ_by_bits() -> None:
    """For a network without seeds, other bits are consistent and another score is different."""
    before = {"bits": [0.5, 0.5, 0.5], "other": [0.5, 0.5, 0.5]}
    after = {"bits": [0.5000001] * 3, "other": [0.6] * 3}
    assert [n.verdict for n in compare_reproduction(before, after)] == ["consistent", "different"]
