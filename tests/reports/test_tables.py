"""Tables have the same content in every format, and bold cells come from a test."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from levelfield.analysis import analyze
from levelfield.reports import (
    Table,
    TableCell,
    TableColumn,
    TableRow,
    means_table,
    pairs_table,
    render_report,
    results_lines,
    results_markdown,
    results_table,
    terminal_table,
    write_report,
)
from levelfield.reports._result_notes import interval_exceptions, unjudged_columns, validation_gap
from levelfield.reports.table import escape_latex
from levelfield.stats import PairVerdict

Writer = Callable[..., Path]
TABLE = Table(
    columns=(
        TableColumn("method", left=True),
        TableColumn("P@1", group="separated"),
        TableColumn("R_P", group="separated"),
        TableColumn("", left=True, aside=True),
    ),
    rows=(
        TableRow(
            (
                TableCell("a_b"),
                TableCell("1.00", "0.10", 0.01, 0.001, "best"),
                TableCell("2.00", value=0.02),
                TableCell("x|y <z>"),
            )
        ),
        TableRow(
            (
                TableCell("old"),
                TableCell("-"),
                TableCell("1.99", value=0.0199, emphasis="alike"),
                TableCell(""),
            )
        ),
    ),
    title="Scores",
    caption="100% of them",
    notes=("note & more",),
)


def main_rows(root: Path) -> dict[str, tuple[TableCell, ...]]:
    analysis = analyze(root)
    return {str(row.cells[0].value): row.cells for row in results_table(analysis).rows}


def test_markdown() -> None:
    assert TABLE.markdown().splitlines() == [
        "| method | separated P@1 | separated R_P |  |",
        "|---|---:|---:|---|",
        r"| a_b | **1.00 ± 0.10** | 2.00 | x\|y &lt;z> |",
        "| old | - | 1.99 |  |",
        "",
        "- note & more",
    ]


def test_html_is_escaped_and_marks_the_best() -> None:
    text = TABLE.html()
    assert '<th colspan="2">separated</th>' in text and '<td class="best">1.00 ± 0.10</td>' in text
    assert '<td class="alike">1.99</td>' in text and '<td class="note aside">x|y &lt;z&gt;</td>' in text
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
        r"old & -- & 1.99 \\",
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
    assert Table.from_records([], ("first", "second")).csv() == "first,second\n"


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
    """``alignment`` is better when lower; a metric without a direction has no bold cells."""
    metric_info = {"name": "alignment", "label": "alignment", "unit": "", "higher_is_better": direction}
    means = {"contrastive": 0.6, "triplet": 0.4, "untrained": 0.1}
    root = write_experiment(means=means, metrics=("alignment",), metric_infos=[metric_info])
    rows = main_rows(root)
    assert [method for method, cells in rows.items() if cells[1].emphasis] == ([best] if best else [])
    assert rows["contrastive"][1].text.startswith("0.59")  # a bare number, not percent
    pair = analyze(root, metric="alignment").pairs[0]
    worst_or_highest = {True: "better", False: "better", None: "higher"}[direction]
    assert pair.verdict == worst_or_highest and "points" not in pair.sentence
    assert pair.first == ("untrained" if direction is False else "contrastive")


@pytest.mark.slow
def test_rows_are_sorted_and_say_which_methods_are_tied(write_experiment: Writer) -> None:
    root = write_experiment(means={"arcface": 0.4, "triplet": 0.5, "contrastive": 0.5, "untrained": 0.1})
    rows = main_rows(root)
    assert list(rows)[2:] == ["arcface", "untrained"]
    assert {method: cells[7].text for method, cells in rows.items()} == {
        "triplet": "tied",
        "contrastive": "tied",
        "arcface": "worse",
        "untrained": "",
    }
    assert rows["untrained"][0].text == "untrained (baseline)"
    in_file_order = results_table(analyze(root), file_order=True).rows
    assert [row.cells[0].value for row in in_file_order] == ["untrained", "arcface", "triplet", "contrastive"]


@pytest.mark.slow
def test_intervals_in_the_table_agree_with_the_verdicts(write_experiment: Writer) -> None:
    """Clear differences have intervals that do not overlap, ties have intervals that do."""
    analysis = analyze(write_experiment(query_noise=0.2))
    for pair in analysis.pairs:
        one, other = (
            analysis.interval(name, analysis.setting, analysis.metric) for name in (pair.first, pair.second)
        )
        assert (one.low > other.high) == (pair.verdict == "better"), pair.sentence
        half = pair.judged.high - pair.difference
        assert one.half_width + other.half_width == pytest.approx(half, rel=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("methods", [2, 5])
def test_the_terminal_table_fits_80_columns(write_experiment: Writer, methods: int) -> None:
    names = ["multi_similarity_miner", "contrastive", "triplet", "arcface", "proxy_anchor"][:methods]
    root = write_experiment(means={name: 0.5 for name in names} | {"untrained": 0.1})
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(terminal_table(analyze(root)).rich())
    lines = [line for line in console.export_text().splitlines() if line.strip()]
    assert len(lines) == 2 + methods + 1 and all(line.split()[-1] in ("tied", "best") for line in lines[2:-1])


def test_markdown_and_latex_have_the_same_bold_numbers(write_experiment: Writer) -> None:
    analysis = analyze(write_experiment())
    markdown = re.findall(r"\*\*([\d.]+) ± ", results_markdown(analysis))
    latex = re.findall(r"\\textbf\{([\d.]+)\}", results_table(analysis).latex())
    assert markdown == latex and len(markdown) == 6


def test_latex_is_balanced_and_escaped(write_experiment: Writer) -> None:
    means = {"proxy_nca": 0.5, "soft_triple": 0.4, "untrained": 0.1}
    analysis = analyze(write_experiment(means=means))
    text = results_table(analysis).latex()
    assert r"proxy\_nca" in text and not re.search(r"(?<!\\)[_%#]", text)
    assert text.count("{") == text.count("}")
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") for line in lines[1:]} == {8}  # method, 6 scores, verdict, epoch


def test_special_characters_are_written_out() -> None:
    assert escape_latex(r"a\b~c^d") == r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d"


def test_the_columns_of_the_csv_are_stable(write_experiment: Writer) -> None:
    rows = list(csv.DictReader(io.StringIO(results_lines(analyze(write_experiment())).csv())))
    assert list(rows[0]) == [
        "method",
        "setting",
        "metric",
        "mean",
        "half_width_95",
        "alone_half_width_95",
        "seed_half_width_95",
        "reruns",
        "trials",
        "mean_best_epoch",
        "leaky",
    ]
    assert len(rows) == 4 * 2 * 3


@pytest.mark.slow
@pytest.mark.parametrize(("leaky", "stamp"), [(True, "true"), (False, "false")])
def test_every_file_of_a_leaky_experiment_says_so(write_experiment: Writer, leaky: bool, stamp: str) -> None:
    directory = write_report(write_experiment(leaky=leaky)).parent
    for name in ("results.csv", "pairs.csv"):
        with (directory / name).open() as file:
            assert {row["leaky"] for row in csv.DictReader(file)} == {stamp}
    for name in ("results.md", "results.tex", "index.html"):
        assert ("Leaky" in (directory / name).read_text()) == leaky


def test_pairs_have_a_line_per_pair(write_experiment: Writer) -> None:
    rows = list(csv.DictReader(io.StringIO(pairs_table(analyze(write_experiment())).csv())))
    assert len(rows) == 6 and rows[0]["sentence"].endswith(".")


@pytest.mark.slow
def test_the_max_epoch_column(write_experiment: Writer) -> None:
    root = write_experiment()
    rows = main_rows(root)
    assert rows["triplet"][8].text == "10.0" and rows["untrained"][8].text == ""
    assert "max. epoch" in results_markdown(analyze(root))


@pytest.mark.slow
@pytest.mark.parametrize(("init", "note"), [("pca", ": epoch 0 of every method"), ("random", "")])
def test_the_row_before_training_says_where_methods_start(
    write_experiment: Writer, init: str, note: str
) -> None:
    root = write_experiment(baseline="pretrained", values={"head": {"init": init}})
    assert main_rows(root)["pretrained"][-1].text == f"before training{note}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index.html", "results.csv", "results.md", "results.tex", "pairs.csv"])
def test_a_report_has_every_file(write_experiment: Writer, name: str) -> None:
    page = write_report(write_experiment())
    assert (page.parent / name).stat().st_size > 100


@pytest.mark.slow
def test_the_page_says_what_is_different_from_what(write_experiment: Writer) -> None:
    text = write_report(write_experiment()).read_text()
    assert "Which methods differ" in text and ": undecided, difference " in text
    assert 'class="alike"' in text and "Published numbers" not in text
    assert not re.search(
        r"<(script|link|img|iframe)[^>]+(src|href)=(?!\"data:)", text
    )  # nothing from elsewhere


def test_the_page_says_why_validation_and_test_scores_differ(write_experiment: Writer) -> None:
    """The validation scores of the made records are about 50."""
    far = analyze(write_experiment("far", means={"contrastive": 0.21, "triplet": 0.2, "untrained": 0.1}))
    text = validation_gap(far)
    assert re.match(
        r"Validation scores are (49|50)\.\d\d MAP@R on average, test scores 15\.\d\d: a test with", text
    )
    assert "more classes and images is harder" in text and text in render_report(far)
    near = analyze(write_experiment("near", means={"contrastive": 0.5, "triplet": 0.48, "untrained": 0.1}))
    assert validation_gap(near) == ""
    best = analyze(write_experiment("best", means={"contrastive": 0.9, "triplet": 0.9, "untrained": 0.1}))
    assert "fewer classes and images is easier" in validation_gap(best)


def test_the_page_says_why_a_column_has_no_intervals(write_experiment: Writer) -> None:
    analysis, key = analyze(write_experiment()), ("concatenated", "precision_at_1")
    refused = replace(analysis.judgments[key], refusal="No verdict: about 9% of the searches went badly.")
    assert unjudged_columns(analysis) == ""
    assert unjudged_columns(replace(analysis, judgments={key: refused})) == (
        "No intervals for concatenated P@1: about 9% of the searches went badly."
    )


@pytest.mark.parametrize("verdict", ["undecided", "better", "worse", "equivalent"])
def test_the_verdict_counts_where_intervals_show_another(
    write_experiment: Writer, verdict: PairVerdict
) -> None:
    """Intervals of contrastive and arcface are far apart."""
    analysis = analyze(write_experiment(means={"contrastive": 0.5, "arcface": 0.4, "untrained": 0.1}))
    pairs = [
        pair
        if "untrained" in (pair.first, pair.second)
        else replace(pair, judged=replace(pair.judged, verdict=verdict))
        for pair in analysis.pairs
    ]
    analysis = replace(analysis, pairs=tuple(pairs))
    text = interval_exceptions(analysis)
    assert ("contrastive and arcface were not told apart" in text) == (verdict == "undecided")
    assert bool(text) == (verdict == "undecided")
    assert means_table(analysis).notes == ((text,) if text else ())


def test_an_experiment_without_scores_has_a_page(write_experiment: Writer) -> None:
    root = write_experiment()
    for file in root.glob("confirmations/*/*"):
        file.unlink()
    assert "Which methods differ" not in write_report(root).read_text()
