"""The report: small, whole, and built from records alone."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from pylatexenc.latexwalker import LatexWalker
from tests.helpers.made_gallery import add_gallery

from levelfield.analysis import analyze, conclude_experiment
from levelfield.core.errors import RunError
from levelfield.reports import Table, results_table, write_report
from levelfield.reports._classes import class_scores, confusions_table
from levelfield.reports._trust import conclusions
from levelfield.reports.figures.charts import GRAY
from levelfield.reports.figures.experiment import method_colors, spectral_decay
from levelfield.reports.pages import ASSETS, asset, data_block

pytestmark = pytest.mark.slow  # experiments, end to end

Writer = Callable[..., Path]


def test_a_page_of_three_methods_is_small(write_experiment: Writer) -> None:
    page = write_report(write_experiment())
    assert page.stat().st_size < 1_500_000
    text = page.read_text()
    assert text.count("plotly.js (basic - minified)") == 1
    own = text.replace(asset("plotly-basic.min.js"), "")
    assert len(own) < 300_000
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", own), "nothing is loaded from elsewhere"


def test_a_page_of_14_methods_with_50_trials_stays_below_5_megabytes(write_experiment: Writer) -> None:
    means = {f"method {number}": 0.3 + 0.01 * number for number in range(14)} | {"untrained": 0.1}
    page = write_report(write_experiment(means=means, trials=50, queries=6000))
    assert page.stat().st_size < 5_000_000


def test_assets_can_lie_beside_the_page(write_experiment: Writer) -> None:
    page = write_report(write_experiment(), assets=True)
    assert page.stat().st_size < 300_000
    assert {file.name for file in (page.parent / "assets").iterdir()} == set(ASSETS)
    assert '<script src="assets/page.js"></script>' in page.read_text()


def test_the_license_of_plotly_is_there() -> None:
    assert "MIT" in asset("plotly-LICENSE.txt") and "Plotly" in asset("plotly-LICENSE.txt")


def test_the_page_shows_gallery_classes_confusions_and_map(write_experiment: Writer) -> None:
    root = write_experiment()
    add_gallery(root)
    page = write_report(root)
    text = page.read_text()
    for section in ("gallery", "classes", "map", "structure", "search", "trust"):
        assert f'id="{section}"' in text, section
    block = re.search(r'gallery">\s*<script type="application/json">(.*?)</script>', text)
    assert block is not None
    content = json.loads(block[1])
    assert set(content["methods"]) == {"contrastive", "triplet", "arcface", "untrained"}
    assert content["methods"]["triplet"]["2"] == [[10, 0.9], [3, 0.5]]
    assert content["labels"]["10"] == content["labels"]["2"] != content["labels"]["3"]
    with (page.parent / "classes.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 8


def test_classes_are_scored_by_their_own_queries(write_experiment: Writer) -> None:
    root = write_experiment()
    add_gallery(root, classes=5)
    analysis = analyze(root)
    found = class_scores(analysis, analysis.metric_info)
    assert len(found) == 5
    for label, scores in found.items():
        for method, confirmation in analysis.confirmations.items():
            queries, classes = confirmation.per_query("concatenated", "map_at_r"), confirmation.classes()
            assert queries is not None and classes is not None
            own = [value for each in queries.values() for value in each[classes == label]]
            assert scores[method] == pytest.approx(np.mean(own))
    means = [np.mean([scores[m] for m in ("contrastive", "triplet", "arcface")]) for scores in found.values()]
    assert means == sorted(means), "hardest first"


def test_confusions_are_shares_of_neighbors(write_experiment: Writer) -> None:
    root = write_experiment()
    add_gallery(root, classes=4)
    table = confusions_table(analyze(root))
    assert table is not None
    pairs = {(row.cells[0].text, row.cells[1].text): row.cells[2].value for row in table.rows}
    assert pairs == {(f"class {n}", f"class {(n + 1) % 4}"): 0.5 for n in range(4)}


def test_rho_is_that_of_the_metric() -> None:
    torch = pytest.importorskip("torch")
    from levelfield import metrics

    points = torch.randn(60, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    shares = metrics.spectrum(points)
    score = metrics.evaluate(points, [0, 1] * 30, metrics=("rho",))["rho"]
    assert spectral_decay(np.asarray(shares)) == pytest.approx(score, rel=1e-5)


def test_conclusions_say_what_is_open(write_experiment: Writer) -> None:
    analysis = analyze(write_experiment())
    can, cannot = conclusions(analysis, [])
    assert any("pairs of methods differ" in line for line in can)
    assert any("does not mean equal" in line for line in cannot)
    assert any("other data than glyphs" in line for line in cannot)
    assert conclusions(analysis, ["a line was removed"])[0] == []


def test_no_text_ends_a_block_of_data() -> None:
    hostile = {"</script><script>alert(1)//": "<!-- \u2028"}
    block = str(data_block(hostile))
    assert block.count("<") == 2
    assert json.loads(block[block.index(">") + 1 : block.rindex("<")]) == hostile


HOSTILE = ["100% & $x_1$ #{a}^b~c\\d", "</td><script>x</script>", "\u202egnp.exe", "../../etc"]


def test_latex_parses_and_has_a_cell_for_every_column(write_experiment: Writer) -> None:
    tables = [
        results_table(analyze(write_experiment())),
        Table.from_rows(
            ["method", *HOSTILE], [[name, 1.0, 2.0, 3.0, 4.0] for name in HOSTILE], caption=HOSTILE[0]
        ),
    ]
    for table in tables:
        text = table.latex()
        nodes, _, _ = LatexWalker(text, tolerant_parsing=False).get_latex_nodes()
        assert nodes
        columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)
        assert columns is not None
        body = text[text.index(r"\midrule") : text.index(r"\bottomrule")]
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert len(lines) == len(table.rows)
        for line in lines:
            assert len(re.findall(r"(?<!\\)&", line)) == len(columns[1]) - 1
            assert not re.search(r"(?<!\\)[%#$_](?!\\pm)", re.sub(r"\$\\pm\$", "", line))


def test_a_damaged_rerun_is_named_with_its_remedy(write_experiment: Writer) -> None:
    root = write_experiment()
    add_gallery(root)
    file = next((root / "confirmations").glob("*/rerun-00.safetensors"))
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(RunError, match=r"rerun-00\.safetensors is damaged .*; delete it"):
        write_report(root)


def test_the_verdict_stands_before_everything_else(write_experiment: Writer) -> None:
    root = write_experiment()
    text = write_report(root).read_text(encoding="utf-8")
    verdict = conclude_experiment(analyze(root))
    assert verdict.answer[0] in text
    order = [text.index(mark) for mark in ('id="verdict"', 'class="dots"', 'id="scores"', 'id="differences"')]
    assert order == sorted(order)
    for name in ("results.md", "results.tex"):
        assert " ".join(verdict.answer) in (root / "report" / name).read_text(encoding="utf-8")


def test_a_method_has_one_color_in_all_charts(write_experiment: Writer) -> None:
    names = [f"m{number:02d}" for number in range(11)]
    colors = method_colors(
        analyze(write_experiment(means={name: 0.5 for name in names} | {"untrained": 0.1}))
    )
    own = [color for color in colors.values() if color != GRAY]
    assert sorted(own) == list(range(8)) and colors["untrained"] == GRAY
