from __future__ import annotations

import pytest

from levelfield.analysis.published import results, thesis_tournament

PRINTED = {
    "ProxyAnchor": 12,
    "SoftTriple": 38,
    "MultiSimilarity": 51,
    "Contrastive": 52,
    "LiftedStructure": 54,
    "Margin": 70,
    "ArcFace": 79,
    "ProxyNCA": 81,
    "Triplet": 103,
    "NPair": 120,
}


@pytest.fixture(scope="module")
def tournament():
    return thesis_tournament()


def test_the_printed_totals_come_out_of_the_printed_tables(tournament):
    assert {standing.method: standing.total for standing in tournament.standings} == PRINTED
    assert [standing.method for standing in tournament.standings] == list(PRINTED)


def test_twelve_cases_of_ten_losses_without_ties(tournament):
    assert len(tournament.cases) == 12
    for scores in tournament.cases.values():
        assert len(scores) == len(set(scores.values())) == 10


def test_the_three_cells_that_differ_are_shown_and_explained(tournament):
    found = {(cell.row, cell.column): cell for cell in tournament.disagreements}
    assert set(found) == {
        ("SoftTriple", "Average Ranking"),
        ("LiftedStructure", "Standard Deviation"),
        ("Triplet", "Average Ranking"),
    }
    assert found["Triplet", "Average Ranking"].recomputed == pytest.approx(103 / 12)
    assert all(cell.note for cell in found.values())


def test_all_other_cells_agree_to_the_printed_digits(tournament):
    cells = results(source="deep-dive", table="Tournament of Loss Functions")
    assert len(cells) - len(tournament.disagreements) == 27


def test_rows_and_remarks_say_it_in_words(tournament):
    first = tournament.rows()[0]
    assert first == {
        "loss": "ProxyAnchor",
        "total": "12",
        "printed total": "12",
        "mean": "1.00",
        "printed mean": "1",
        "std": "0.00",
        "printed std": "0",
    }
    assert len(tournament.rank_rows()[0]) == 13
    text = "\n".join(tournament.remarks())
    assert "10 of 10 printed totals agree; 3 printed cells differ" in text
    assert "Triplet, Average Ranking: printed 8.85, recomputed 8.5833" in text


def test_the_winner_is_not_distinguishable_from_contrastive(tournament):
    assert "Contrastive" in tournament.test.groups[0]
    assert tournament.test.groups[0][0] == "ProxyAnchor"
