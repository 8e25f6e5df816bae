"""Within an experiment, over several, and beside the papers."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from levelfield.analysis import analyze, compare_experiments, compare_with_published
from levelfield.analysis._published_comparison import published_batch_size
from levelfield.analysis.published import results
from levelfield.cli._app import run_app
from levelfield.reports import comparison_markdown
from levelfield.reports._published_table import build_published_tables

pytestmark = pytest.mark.slow  # experiments, end to end

Writer = Callable[..., Path]
BNINCEPTION = {"name": "bninception", "weights": "imagenet"}
CUB = {"dataset": "cub200", "baseline": "pretrained"}
MEANS = {"pretrained": 0.14, "contrastive": 0.26, "triplet": 0.24, "arcface": 0.25}


def test_the_same_protocol_as_the_paper_differs_in_nothing(write_experiment: Writer) -> None:
    root = write_experiment(means=MEANS, trunk=BNINCEPTION, **CUB)
    rows = compare_with_published(analyze(root), metrics=["map_at_r"])
    found = {(r.method, r.setting): r for r in rows if r.cell.source == "reality-check"}
    cell = found["triplet", "concatenated"].cell
    assert (cell.value, cell.spread) == (23.79, 0.36)
    assert found["triplet", "separated"].cell.printed.startswith("18.8")
    assert all(row.differs == () for row in found.values())


def test_what_differs_is_said(write_experiment: Writer) -> None:
    root = write_experiment(
        means=MEANS,
        trunk={"name": "resnet50", "weights": "imagenet", "mode": "frozen"},
        values={"head": {"size": 64}, "batch": {"size": 16}},
        **CUB,
    )
    rows = compare_with_published(analyze(root), metrics=["precision_at_1"])
    found = {(r.method, r.setting, r.cell.source): r.differs for r in rows}
    assert found["triplet", "concatenated", "reality-check"] == (
        "trunk bninception, here resnet50",
        "trunk fine-tuned, here frozen",
        "size 512, here 256",
        "batch 32, here 16",
    )
    thesis = found["contrastive", "separated", "deep-dive"]  # its ResNet50 table of size 64 is the closest
    assert not any(fact.startswith(("trunk resnet50", "size")) for fact in thesis)
    assert {"batch 100, here 16", "one model, no folds"} <= set(thesis)
    assert found["pretrained", "concatenated", "reality-check"] == (
        "trunk bninception, here resnet50",
        "size 512, here 256",
    )


def test_claims_are_no_match(write_experiment: Writer) -> None:
    rows = compare_with_published(analyze(write_experiment(means=MEANS, trunk=BNINCEPTION, **CUB)))
    assert rows and all(row.cell.setting != "claimed" for row in rows)


def test_a_dataset_without_publications_has_no_rows(write_experiment: Writer) -> None:
    assert compare_with_published(analyze(write_experiment())) == []


def test_every_source_of_measured_results_has_a_batch_size() -> None:
    measured = [c for c in results() if c.unit == "%" and c.method and c.setting != "claimed" and c.trunk]
    assert all(published_batch_size(cell) for cell in measured)


def test_a_table_says_common_differences_once(write_experiment: Writer) -> None:
    root = write_experiment(means=MEANS, trunk=BNINCEPTION | {"mode": "frozen"}, **CUB)
    (table,) = build_published_tables(
        [r for r in compare_with_published(analyze(root), metrics=["map_at_r"]) if r.setting == "separated"]
    )
    assert [column.head for column in table.columns] == [
        "method",
        "here",
        "reality-check",
        "reality-check-later",
    ]
    assert table.notes[0] == "reality-check (Table 3): trunk fine-tuned, here frozen."


def directories(write: Writer, count: int) -> list[Path]:
    names = ["cub200", "cars196", "sop", "glyphs", "inshop", "gldv2"][:count]
    means = {"contrastive": 0.5, "triplet": 0.4, "arcface": 0.3, "margin": 0.2, "untrained": 0.1}
    return [write(name, dataset=name, means=means) for name in names]


def test_ranks_over_datasets(write_experiment: Writer) -> None:
    overall = compare_experiments([analyze(root) for root in directories(write_experiment, 5)])
    assert overall.test is not None and overall.test.cases == 5
    assert overall.together is not None and len(overall.together.pairs) == 6
    assert overall.sentences[0] == overall.together.sentence
    assert overall.sentences[0].startswith(("What repeats over ", "Nothing repeats: over "))
    assert list(overall.test.mean_ranks) == ["contrastive", "triplet", "arcface", "margin"]  # no baseline
    assert any(s.startswith("contrastive is better than margin") for s in overall.sentences)
    assert any("are not distinguishable" in s for s in overall.sentences)
    assert not any("are not distinguishable (" in s for s in overall.sentences), "231 lines that say nothing"


def test_methods_that_are_not_everywhere_are_left_out(write_experiment: Writer) -> None:
    one = write_experiment("one", means={"contrastive": 0.5, "triplet": 0.4, "untrained": 0.1})
    two = write_experiment("two", means={"contrastive": 0.5, "arcface": 0.4, "untrained": 0.1}, reruns=2)
    overall = compare_experiments([analyze(one), analyze(two)])
    assert overall.left_out == ("arcface", "triplet") and overall.test is None
    assert overall.differing == ("confirm",)
    assert any("cannot be ranked" in sentence for sentence in overall.sentences)
    assert list(overall.cases) == ["one", "two"]  # the dataset is the same, the names tell them apart


def test_the_text_has_a_sentence_per_pair(write_experiment: Writer) -> None:
    analysis = analyze(write_experiment())
    text = comparison_markdown([analysis], None)
    assert all(pair.sentence in text for pair in analysis.pairs)


def test_the_command_prints_and_writes(
    write_experiment: Writer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    roots = [str(root) for root in directories(write_experiment, 3)]
    assert run_app(["compare", *roots, "--out", str(tmp_path / "out"), "--against", "best"]) == 0
    out = capsys.readouterr().out
    assert "# cub200: concatenated MAP@R" in out and "Friedman" in out
    text = (tmp_path / "out" / "comparison.md").read_text()
    assert text.splitlines()[-1].startswith("**Of 6 pairs of methods, "), "what repeats stands at the end"
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {
        "comparison.md",
        "pairs-cub200.csv",
        "pairs-cars196.csv",
        "pairs-sop.csv",
        "across.tex",
        "critical-difference.png",
        "critical-difference.svg",
    }
    rows = list(csv.DictReader((tmp_path / "out" / "pairs-sop.csv").open()))
    assert {row["second"] for row in rows} == {"contrastive"}
    assert {row["verdict"] for row in rows} == {"worse"}


def test_the_command_prints_json(write_experiment: Writer, capsys: pytest.CaptureFixture[str]) -> None:
    root = write_experiment(means=MEANS, trunk=BNINCEPTION, **CUB)
    assert run_app(["compare", str(root), "--json", "--setting", "separated"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["experiments"]
    assert found["leaders"] == ["contrastive"] and len(found["pairs"]) == 6
    assert found["published"][0]["cite"].startswith("reality-check")


def test_no_experiment_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_app(["compare", str(tmp_path)]) == 2
    assert "holds no levelfield experiment" in capsys.readouterr().err
