"""The tables say the same in every format, and bold is earned by a test."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from levelfield.compare import weigh
from levelfield.reports import (
    Cell,
    Column,
    Row,
    Table,
    pairs_table,
    results_lines,
    results_markdown,
    results_table,
    write_report,
)
from levelfield.reports.table import escape_latex

Writer = Callable[..., Path]
TABLE = Table(
    columns=(
        Column("method", left=True),
        Column("P@1", group="separated"),
        Column("R_P", group="separated"),
        Column("", left=True, aside=True),
    ),
    rows=(
        Row(
            (
                Cell("a_b"),
                Cell("1.00", "0.10", 0.01, 0.001, "best"),
                Cell("2.00", value=0.02),
                Cell("x|y <z>"),
            )
        ),
        Row((Cell("old"), Cell("-"), Cell("1.99", value=0.0199, emphasis="alike"), Cell(""))),
    ),
    title="Scores",
    caption="100% of them",
    notes=("note & more",),
)


def main_rows(root: Path) -> dict[str, tuple[Cell, ...]]:
    evidence = weigh(root)
    return {row.cells[0].text: row.cells for row in results_table(evidence.comparison, evidence.leaders).rows}


def test_markdown() -> None:
    assert TABLE.markdown().splitlines() == [
        "| method | separated P@1 | separated R_P |  |",
        "|---|---:|---:|---|",
        r"| a_b | **1.00 ± 0.10** | 2.00 | x\|y <z> |",
        "| old | - | **1.99** |  |",
        "",
        "- note & more",
    ]


def test_html_is_escaped_and_marks_the_best() -> None:
    text = TABLE.html()
    assert '<th colspan="2">separated</th>' in text and '<td class="best">1.00 ± 0.10</td>' in text
    assert '<td class="alike">1.99</td>' in text and '<td class="note">x|y &lt;z&gt;</td>' in text
    assert "<li" in text and "note &amp; more" in text


def test_latex_groups_columns_and_leaves_asides_out() -> None:
    assert TABLE.latex().splitlines() == [
        r"\begin{table}",
        r"\centering",
        r"\caption{100\% of them}",
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r" & \multicolumn{2}{c}{separated} \\",
        r"\cmidrule(lr){2-3}",
        r"method & P@1 & R\_P \\",
        r"\midrule",
        r"a\_b & \textbf{1.00} {\scriptsize $\pm$ 0.10} & 2.00 \\",
        r"old & -- & \textbf{1.99} \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]


def test_csv_has_full_precision_and_half_widths() -> None:
    rows = list(csv.DictReader(io.StringIO(TABLE.csv())))
    assert rows[0] == {
        "method": "a_b",
        "separated P@1": "0.01",
        "separated P@1 half_width_95": "0.001",
        "separated R_P": "0.02",
        "": "x|y <z>",
    }
    assert rows[1]["separated P@1 half_width_95"] == ""


def test_the_terminal_shows_the_same_numbers() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(TABLE.rich())
    text = console.export_text()
    assert "1.00 ± 0.10" in text and "1.99" in text and "x|y" not in text


def test_an_empty_table_of_records_keeps_its_heads() -> None:
    assert Table.of_records([], ("first", "second")).csv() == "first,second\n"


def test_bold_marks_the_best_and_what_is_not_distinguishable(write_experiment: Writer) -> None:
    rows = main_rows(write_experiment())
    for method in ("contrastive", "triplet"):
        assert all(cell.emphasis for cell in rows[method][1:7])
    for method in ("arcface", "untrained"):
        assert not any(cell.emphasis for cell in rows[method])
    assert sum(cells[1].emphasis == "best" for cells in rows.values()) == 1


@pytest.mark.parametrize(("direction", "best"), [(True, "contrastive"), (False, "untrained"), (None, None)])
def test_bold_follows_the_direction_of_the_metric(
    write_experiment: Writer, direction: bool | None, best: str | None
) -> None:
    """``alignment`` is better when lower; a measure without a direction has nothing in bold."""
    measure = {"name": "alignment", "label": "alignment", "unit": "", "higher_is_better": direction}
    means = {"contrastive": 0.6, "triplet": 0.4, "untrained": 0.1}
    root = write_experiment(means=means, metrics=("alignment",), measures=[measure])
    rows = main_rows(root)
    assert [method for method, cells in rows.items() if cells[1].emphasis] == ([best] if best else [])
    assert rows["contrastive"][1].text.startswith("0.59")  # a bare number, not percent
    finding = weigh(root, metric="alignment").findings[0]
    worst_or_highest = {True: "better", False: "better", None: "higher"}[direction]
    assert finding.verdict == worst_or_highest and "points" not in finding.sentence
    assert finding.first == ("untrained" if direction is False else "contrastive")


def test_without_tests_only_the_best_mean_is_bold(write_experiment: Writer) -> None:
    rows = results_table(weigh(write_experiment()).comparison).rows
    assert {cell.emphasis for row in rows for cell in row.cells} == {"", "best"}


def test_markdown_and_latex_have_the_same_bold_numbers(write_experiment: Writer) -> None:
    evidence = weigh(write_experiment())
    markdown = re.findall(r"\*\*([\d.]+) ± ", results_markdown(evidence.comparison, evidence.leaders))
    latex = re.findall(r"\\textbf\{([\d.]+)\}", results_table(evidence.comparison, evidence.leaders).latex())
    assert markdown == latex and len(markdown) == 12


def test_latex_is_balanced_and_escaped(write_experiment: Writer) -> None:
    means = {"proxy_nca": 0.5, "soft_triple": 0.4, "untrained": 0.1}
    evidence = weigh(write_experiment(means=means))
    text = results_table(evidence.comparison, evidence.leaders).latex()
    assert r"proxy\_nca" in text and not re.search(r"(?<!\\)[_%#]", text)
    assert text.count("{") == text.count("}")
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in lines[1:]} == {7}  # method, 6 scores, epoch


def test_special_characters_are_written_out() -> None:
    assert escape_latex(r"a\b~c^d") == r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"


def test_the_columns_of_the_csv_are_stable(write_experiment: Writer) -> None:
    rows = list(csv.DictReader(io.StringIO(results_lines(weigh(write_experiment()).comparison).csv())))
    assert list(rows[0]) == [
        "method",
        "setting",
        "metric",
        "mean",
        "half_width_95",
        "reruns",
        "trials",
        "mean_best_epoch",
        "leaky",
    ]
    assert len(rows) == 4 * 2 * 3


@pytest.mark.parametrize(("leaky", "stamp"), [(True, "true"), (False, "false")])
def test_every_file_of_a_leaky_experiment_says_so(write_experiment: Writer, leaky: bool, stamp: str) -> None:
    folder = write_report(write_experiment(leaky=leaky)).parent
    for name in ("results.csv", "pairs.csv"):
        with (folder / name).open() as file:
            assert {row["leaky"] for row in csv.DictReader(file)} == {stamp}
    for name in ("results.md", "results.tex", "index.html"):
        assert ("Leaky" in (folder / name).read_text()) == leaky


def test_pairs_have_a_line_per_pair(write_experiment: Writer) -> None:
    rows = list(csv.DictReader(io.StringIO(pairs_table(weigh(write_experiment())).csv())))
    assert len(rows) == 6 and rows[0]["sentence"].endswith(".")


def test_the_max_epoch_column(write_experiment: Writer) -> None:
    root = write_experiment()
    rows = main_rows(root)
    assert rows["triplet"][7].text == "10.0" and rows["untrained"][7].text == ""
    assert "max. epoch" in results_markdown(weigh(root).comparison)


@pytest.mark.parametrize(("init", "note"), [("pca", ": epoch 0 of every method"), ("random", "")])
def test_the_row_before_training_says_where_methods_start(
    write_experiment: Writer, init: str, note: str
) -> None:
    root = write_experiment(baseline="pretrained", values={"head": {"init": init}})
    assert main_rows(root)["pretrained"][-1].text == f"before training{note}"


@pytest.mark.parametrize("name", ["index.html", "results.csv", "results.md", "results.tex", "pairs.csv"])
def test_a_report_has_every_file(write_experiment: Writer, name: str) -> None:
    page = write_report(write_experiment())
    assert (page.parent / name).stat().st_size > 100


def test_the_page_says_what_is_different_from_what(write_experiment: Writer) -> None:
    text = write_report(write_experiment()).read_text()
    assert "What is different from what" in text and ": undecided, difference " in text
    assert 'class="alike"' in text and "Beside published numbers" not in text
    assert not re.search(
        r"<(script|link|img|iframe)[^>]+(src|href)=(?!\"data:)", text
    )  # nothing from elsewhere


def test_an_experiment_without_scores_has_a_page(write_experiment: Writer) -> None:
    root = write_experiment()
    for file in root.glob("confirmations/*/*"):
        file.unlink()
    assert "What is different" not in write_report(root).read_text()
