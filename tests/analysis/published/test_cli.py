from __future__ import annotations

import csv
import io
import json

import pytest
from typer.testing import CliRunner

from levelfield.cli.published import app
from levelfield.core.errors import UsageError


def run(*arguments):
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_without_filters_the_sources_are_listed():
    output = run("show")
    for name in ("reality-check-later", "revisiting", "deep-dive-fixed"):
        assert name in output


def test_filters_and_what_all_rows_share():
    output = run("show", "--method", "triplet", "--dataset", "cub200", "--source", "reality-check")
    assert "source reality-check" in output
    assert "18.80 ± 0.27" in output


def test_json_and_csv_hold_every_column():
    arguments = ("show", "--source", "revisiting", "--table", "Table 2", "--metric", "nmi")
    rows = json.loads(run(*arguments, "--json"))
    assert len(rows) == 24 * 3
    assert rows[0]["note"].startswith("Table 4 prints 57.56")
    table = list(csv.DictReader(io.StringIO(run(*arguments, "--csv"))))
    assert [row["printed"] for row in table] == [row["printed"] for row in rows]


def test_flagged_shows_the_misprints():
    rows = json.loads(run("show", "--flagged", "--source", "deep-dive", "--json"))
    assert "88,44" in {row["printed"] for row in rows}
    assert all(row["note"] for row in rows)


def test_hyperparameters():
    output = run(
        "show", "--hyperparameters", "--method", "multi_similarity_miner", "--source", "deep-dive-fixed"
    )
    assert "miner.epsilon" in output
    assert "76.0" in output


def test_nothing_found_is_an_empty_table():
    assert "0 rows" in run("show", "--method", "ntxent", "--source", "revisiting")
    assert run("show", "--method", "ntxent", "--source", "revisiting", "--csv").strip() == ""


def test_a_typo_gets_a_suggestion():
    with pytest.raises(UsageError, match="did you mean"):
        run("show", "--method", "tripplet")


def test_tournament():
    output = run("tournament", "--cases")
    assert "10 of 10 printed totals agree" in output
    assert "googlenet" in output
    assert json.loads(run("tournament", "--json"))["standings"][0]["method"] == "ProxyAnchor"


@pytest.mark.slow
def test_figures(tmp_path):
    output = run("figures", "--out", str(tmp_path))
    assert "papers-versus-reality.png" in output.replace("\n", "")
    assert len(list(tmp_path.glob("*.png"))) == 7
    assert len(list(tmp_path.glob("*.html"))) == 6
