from __future__ import annotations

import pytest

from levelfield.analysis.published import (
    PublishedPoint,
    claimed,
    claimed_improvements,
    measured,
    measured_improvements,
    results,
    years,
)


def test_years_agree_with_the_reality_checks_table_6():
    for cell in results(source="reality-check", table="Table 6", metric="year"):
        assert years()[cell.method][1] == cell.value


def test_papers_claim_a_steep_rise():
    points = {point.method: point for point in claimed("cub200")}
    assert points["contrastive"].n == 10
    assert points["contrastive"].value < 31
    assert points["margin"].value == 63.6
    assert points["proxy_anchor"].value == 68.4
    assert points["lifted_structure"].n == 1  # two slides quote it


def test_reality_is_flat():
    for dataset in ("cub200", "cars196", "sop"):
        points = {point.method: point.value for point in measured(dataset)}
        assert len(points) == 14
        assert max(points.values()) - points["contrastive"] < 4


def test_points_are_in_order_of_time():
    dates = [point.year for point in measured("sop")]
    assert dates == sorted(dates)


def test_claimed_improvements_use_the_papers_own_baseline():
    # Lifted structure: 43.57 over its own 26.4 for contrastive and 36.1 for triplet.
    assert claimed_improvements("contrastive", "cub200") == {
        "lifted_structure": pytest.approx(65.04, abs=0.01)
    }
    assert claimed_improvements("triplet", "cub200")["lifted_structure"] == pytest.approx(20.69, abs=0.01)
    assert set(claimed_improvements("contrastive", "sop")) == {"abe", "dvml"}


def test_measured_improvements_leave_the_classics_out():
    points = [
        PublishedPoint("contrastive", "C", 2006, 50.0),
        PublishedPoint("triplet", "T", 2006, 40.0),
        PublishedPoint("arcface", "A", 2019, 60.0),
    ]
    assert measured_improvements("triplet", points) == {"arcface": pytest.approx(50.0)}
