from __future__ import annotations

import pytest

from levelfield.analysis.published import results, sources
from levelfield.core.errors import UsageError


def test_filters_are_joined_by_and():
    cells = results(source="reality-check-later", dataset="sop", setting="separated", metric="map_at_r")
    assert len(cells) == 15
    assert {cell.dataset for cell in cells} == {"sop"}


def test_a_variant_filter_needs_every_mark():
    cells = results(
        source="revisiting", method="triplet", variant={"miner": "random", "sampler": "frd"}, metric="f1"
    )
    assert [cell.dataset for cell in cells] == ["cub200", "cars196", "sop"]


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"method": "tripplet"}, 'no published method "tripplet"; did you mean "triplet"'),
        ({"dataset": "cub"}, 'no published dataset "cub"; did you mean "cub200"'),
        ({"metric": "map@r"}, 'no published metric "map@r"'),
        ({"source": "reality"}, 'no published source "reality"'),
    ],
)
def test_a_typo_is_an_error_not_an_empty_table(filters, message):
    with pytest.raises(UsageError) as error:
        results(**filters)
    assert message in str(error.value)


def test_a_right_name_without_numbers_is_an_empty_list():
    assert results(method="ntxent", source="revisiting") == []
    assert results(embedding_size=7) == []


def test_fractions_are_for_percentages_only():
    (cell,) = results(source="reality-check", table="Table 1", dataset="sop", trunk="googlenet")
    assert cell.fraction == pytest.approx(0.452)
    assert results(source="deep-dive", metric="rank_sum")[0].fraction is None


def test_every_source_says_who_and_what():
    for source in sources().values():
        assert source.title
        assert source.authors
        assert source.year == 2020
        assert source.spread
