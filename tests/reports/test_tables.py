"""The tables say the same in every format, and bold is earned by a test."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from levelfield.reports._latex import escape

from levelfield.reports import results_csv, results_latex, results_markdown, table_rows, weigh, write_report

Writer = Callable[..., Path]


def test_bold_marks_the_best_and_what_is_not_distinguishable(write_experiment: Writer) -> None:
    evidence = weigh(write_experiment())
    rows = {row.method: row for row in table_rows(evidence.comparison, evidence.leaders)}
    assert all(rows["contrastive"].alike) and all(rows["triplet"].alike)
    assert not any(rows["arcface"].alike) and not any(rows["untrained"].alike)
    assert sum(row.best[0] for row in rows.values()) == 1


def test_without_tests_only_the_best_mean_is_bold(write_experiment: Writer) -> None:
    comparison = weigh(write_experiment()).comparison
    assert all(row.alike == row.best for row in table_rows(comparison))


def test_markdown_and_latex_have_the_same_bold_numbers(write_experiment: Writer) -> None:
    evidence = weigh(write_experiment())
    markdown = re.findall(r"\*\*([\d.]+) ± ", results_markdown(evidence.comparison, evidence.leaders))
    latex = re.findall(r"\\textbf\{([\d.]+)\}", results_latex(evidence.comparison, evidence.leaders))
    assert markdown == latex and len(markdown) == 12


def test_latex_is_balanced_and_escaped(write_experiment: Writer) -> None:
    means = {"proxy_nca": 0.5, "soft_triple": 0.4, "untrained": 0.1}
    evidence = weigh(write_experiment(means=means))
    text = results_latex(evidence.comparison, evidence.leaders)
    assert r"proxy\_nca" in text and not re.search(r"(?<!\\)[_%#]", text)
    assert text.count("{") == text.count("}")
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in lines[1:]} == {7}  # method, 6 scores, epoch


def test_special_characters_are_written_out() -> None:
    assert escape(r"a\b~c^d") == r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"


def test_the_columns_of_the_csv_are_stable(write_experiment: Writer) -> None:
    rows = list(csv.DictReader(io.StringIO(results_csv(weigh(write_experiment()).comparison))))
    assert list(rows[0]) == [
        "method",
        "setting",
        "metric",
        "mean",
        "half_width_95",
        "reruns",
        "trials",
        "mean_best_epoch",
    ]
    assert len(rows) == 4 * 2 * 3


def test_the_max_epoch_column(write_experiment: Writer) -> None:
    evidence = weigh(write_experiment())
    epochs = {row.method: row.epoch for row in table_rows(evidence.comparison)}
    assert epochs["triplet"] == "10.0" and epochs["untrained"] == ""
    assert "max. epoch" in results_markdown(evidence.comparison)


@pytest.mark.parametrize("name", ["index.html", "results.csv", "results.md", "results.tex", "pairs.csv"])
def test_a_report_has_every_file(write_experiment: Writer, name: str) -> None:
    page = write_report(write_experiment())
    assert (page.parent / name).stat().st_size > 100


def test_the_page_says_what_is_different_from_what(write_experiment: Writer) -> None:
    text = write_report(write_experiment()).read_text()
    assert "What is different from what" in text and "are not distinguishable" in text
    assert 'class="alike"' in text and "Beside published numbers" not in text
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", text)  # nothing from elsewhere


def test_an_experiment_without_scores_has_a_page(write_experiment: Writer) -> None:
    root = write_experiment()
    for file in root.glob("confirmations/*/*"):
        file.unlink()
    assert "What is different" not in write_report(root).read_text()
