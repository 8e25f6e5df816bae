"""The transcription is whole, in range, and agrees with itself; misprints are flagged, and only those."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

from levelfield.analysis.published import results, sources

CELLS = results()
METRIC_INFOS = {
    "precision_at_1",
    "r_precision",
    "map_at_r",
    "map_c",
    "nmi",
    "f1",
    *(f"recall_at_{k}" for k in (2, 4, 8, 10, 100, 1000)),
}
SIZES = {  # rows x columns of every table, as counted on the page
    ("reality-check", "Table 1"): 3 * 3,
    ("reality-check", "Table 2"): 3 * 3,
    ("reality-check", "Table 3"): 13 * 6,
    ("reality-check", "Table 4"): 13 * 6,
    ("reality-check", "Table 5"): 13 * 6,
    ("reality-check", "Table 6"): 12 * 2,
    ("reality-check-later", "Table 4"): 15 * 6,
    ("reality-check-later", "Table 5"): 15 * 6,
    ("reality-check-later", "Table 6"): 15 * 6,
    ("reality-check-supplement", "Reported Precision@1 for the Contrastive Loss"): 11 * 3,
    ("reality-check-supplement", "Reported Precision@1 for the Triplet Loss"): 11 * 3,
    ("revisiting", "Table 1"): 3 * 3,
    ("revisiting", "Table 2"): 24 * 6,
    ("revisiting", "Table 3"): 7 * 4,
    ("revisiting", "Table 4"): 24 * 6,
    ("revisiting", "Table 5"): 24 * 6,
    ("revisiting", "Table 6"): 22 * 6,
    ("revisiting", "Table 7"): 49 * 5,
    ("revisiting", "Table 8"): 49 * 5,
    ("revisiting", "Table 9"): 36 * 5,
    ("deep-dive", "Datasets"): 3 * 3,
    ("deep-dive", "Networks"): 10 * 2,
    ("deep-dive", "Implementation Details: Mining"): 10,
    ("deep-dive", "Implementation Details: Sampling"): 10,
    ("deep-dive", "Implementation Details: Schedule"): 9 * 3,
    ("deep-dive", "Tournament of Loss Functions"): 10 * 3,
    ("deep-dive", "Cross Validation: CV R@1 scores"): 3,
    ("deep-dive", "Cross Validation: Default Setup R@1 scores"): 3,
    ("deep-dive", "Fixed Validation: Our Fixed Validation R@1 scores"): 3,
    ("deep-dive", "Fixed Validation: Our Default Setup R@1 scores"): 3,
    ("deep-dive", "Fixed Validation: Authors Default Setup R@1 scores"): 3,
    ("deep-dive", "Fixed Validation: split ratio"): 4 * 2,
    ("deep-dive", "Our Method"): 11 * 12,
    ("deep-dive", "CUB200-2011 ResNet50: In paper"): 3,
    ("deep-dive", "CUB200-2011 ResNet50: In our results"): 3,
    ("deep-dive", "CUB200-2011 BNInception: In paper"): 3,
    ("deep-dive", "CUB200-2011 BNInception: In our results"): 3,
    ("deep-dive", "CARS196 BNInception: In paper"): 2,
    ("deep-dive", "CARS196 BNInception: In our results"): 2,
    **{
        ("deep-dive", f"{slide} ({panel})"): 10 * 4
        for slide in (
            "CUB200-2011 ResNet50",
            "CUB200-2011 BNInception",
            "CUB200-2011 GoogLeNet",
            "CARS196 BNInception",
        )
        for panel in "abcd"
    },
}


def value(**filters):
    (cell,) = results(**filters)
    return cell.value


def test_every_table_is_whole():
    assert Counter((cell.source, cell.table) for cell in CELLS) == SIZES


def test_no_cell_occurs_twice():
    keys = [(c.source, c.table, c.row, c.column, c.dataset, c.embedding_size, c.metric) for c in CELLS]
    assert len(set(keys)) == len(keys)


def test_every_cell_has_a_source_and_what_it_prints():
    assert {cell.source for cell in CELLS} == {s.name for s in sources().values() if s.results}
    assert all(cell.table and cell.row and cell.column and cell.metric and cell.printed for cell in CELLS)


def test_values_are_what_is_printed():
    """The number before and after "±" is the value and the spread; every exception is flagged."""
    for cell in CELLS:
        found = re.fullmatch(r"~?(\d+(?:\.\d+)?)(?: ± (\d+(?:\.\d+)?))?", cell.printed)
        if found and cell.value is not None:
            assert cell.value == float(found[1]), cell
            assert cell.spread == (float(found[2]) if found[2] else None), cell
        elif cell.unit != "text" and cell.printed != "N/A":
            assert cell.note, cell


def test_cells_without_a_value_are_dashes_not_available_or_cut_off():
    empty = Counter(cell.printed for cell in CELLS if cell.value is None and cell.unit != "text")
    assert empty.pop("N/A") == 4 + 2  # in the contrastive and in the triplet table
    assert empty.pop("—") == 4
    assert empty.pop("-") == 2 + 2 + 3
    cut = results(source="deep-dive", table="CUB200-2011 GoogLeNet (d)", metric="recall_at_8")
    assert sum(empty.values()) == len(cut) == 10


def test_percentages_and_spreads_are_in_range():
    for cell in CELLS:
        assert (cell.metric in METRIC_INFOS) == (cell.unit == "%"), cell
        if cell.unit == "%" and cell.value is not None:
            assert 0 < cell.value < 100
        if cell.spread is not None:
            assert 0 <= cell.spread < 40
            assert cell.spread_kind == ("ci95" if cell.source.startswith("reality") else "std")


def test_recall_grows_with_k():
    rows: defaultdict[tuple[object, ...], dict[int, float]] = defaultdict(dict)
    for cell in CELLS:
        if cell.value is not None and re.fullmatch(r"precision_at_1|recall_at_\d+", cell.metric):
            k = int(cell.metric.rsplit("_", 1)[1])
            key = (cell.source, cell.table, cell.row, cell.dataset, cell.trunk, cell.embedding_size)
            if cell.setting not in ("concatenated", "separated", "fixed_validation_score"):
                rows[key][k] = cell.value
    for row, found in rows.items():
        assert sorted(found.values()) == [found[k] for k in sorted(found)], row


def test_map_at_r_is_below_r_precision_below_precision_at_1():
    for source in ("reality-check", "reality-check-later"):
        rows: defaultdict[tuple[object, ...], dict[str, float]] = defaultdict(dict)
        for cell in results(source=source):
            if cell.setting in ("concatenated", "separated") and cell.value is not None:
                rows[cell.table, cell.row, cell.setting][cell.metric] = cell.value
        for found in rows.values():
            assert found["map_at_r"] < found["r_precision"] < found["precision_at_1"]


def test_bold_is_the_best_of_its_column_or_flagged():
    columns = defaultdict(list)
    for cell in CELLS:
        if cell.value is not None and not cell.method.startswith("r_"):
            columns[cell.source, cell.table, cell.dataset, cell.setting, cell.metric].append(cell)
    for cells in columns.values():
        if any(cell.bold for cell in cells):
            best = max(cell.value for cell in cells if cell.value is not None)
            for cell in cells:
                assert (cell.bold == (cell.value == best)) != ("bold" in cell.note), cell
    wrong = [cell for cell in CELLS if "in bold" in cell.note]
    assert {(cell.source, cell.table, cell.row) for cell in wrong} == {
        ("reality-check-later", "Table 5", "ArcFace")
    }
    assert len(wrong) == 6


def test_both_versions_of_the_reality_check_pretrain_alike():
    for dataset in ("cub200", "cars196", "sop"):
        one = results(source="reality-check", method="pretrained", dataset=dataset, trunk="bninception")
        two = results(source="reality-check-later", method="pretrained", dataset=dataset)
        assert [cell.value for cell in one if cell.setting] == [cell.value for cell in two]


def test_revisitings_table_2_repeats_tables_4_to_6():
    detailed = {
        (cell.method, cell.variant.get("miner"), cell.variant.get("beta"), cell.dataset, cell.metric): cell
        for table in ("Table 4", "Table 5", "Table 6")
        for cell in results(source="revisiting", table=table)
    }
    different = []
    for cell in results(source="revisiting", table="Table 2"):
        if cell.value is None:
            continue
        key = (cell.method, cell.variant.get("miner"), cell.variant.get("beta"), cell.dataset, cell.metric)
        if (cell.value, cell.spread) != (detailed[key].value, detailed[key].spread):
            different.append(cell)
    assert [(cell.row, cell.column, cell.dataset) for cell in different] == [("Imagenet", "NMI", "cub200")]
    assert "slipped" in different[0].note


def test_revisitings_table_9_has_two_headers_swapped():
    for cell in results(source="revisiting", table="Table 9"):
        if cell.column in ("NMI", "mAP"):
            assert cell.metric == ("map_c" if cell.column == "NMI" else "nmi")
            assert "swapped" in cell.note
            assert cell.value is not None and (cell.value > 80) == (cell.metric == "nmi")


def test_revisiting_tries_every_loss_with_every_sampler():
    for table, losses, samplers in (("Table 7", 7, 7), ("Table 8", 7, 7), ("Table 9", 6, 6)):
        cells = results(source="revisiting", table=table, metric="precision_at_1")
        pairs = {(cell.method, cell.variant["sampler"]) for cell in cells}
        assert len(pairs) == losses * samplers
        assert len({sampler for _, sampler in pairs}) == samplers


def test_the_thesis_repeats_its_own_tables():
    tables = {"cub200": "CUB200-2011 BNInception (c)", "cars196": "CARS196 BNInception (c)"}
    for dataset, table in tables.items():
        repeated = {
            (cell.row, cell.metric): cell.value
            for cell in results(source="deep-dive", table="Our Method", dataset=dataset)
        }
        for cell in results(source="deep-dive", table=table):
            assert repeated[cell.row, cell.metric] == cell.value
    for cell in CELLS:
        if cell.table.endswith(("In our results", "Default Setup R@1 scores")) and cell.setting == "default":
            same = results(
                source="deep-dive",
                method=cell.method,
                dataset=cell.dataset,
                trunk=cell.trunk,
                embedding_size=cell.embedding_size,
                metric="precision_at_1",
                setting="default",
            )
            assert {other.value for other in same} == {cell.value}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"source": "reality-check", "table": "Table 1", "trunk": "resnet50", "dataset": "sop"}, 52.9),
        ({"source": "reality-check", "table": "Table 2", "trunk": "bninception", "dataset": "cars196"}, 13.7),
        (
            {
                "source": "reality-check",
                "method": "snr_contrastive",
                "dataset": "sop",
                "setting": "separated",
                "metric": "r_precision",
            },
            43.92,
        ),
        (
            {
                "source": "reality-check-later",
                "method": "margin_class",
                "dataset": "cub200",
                "setting": "concatenated",
                "metric": "map_at_r",
            },
            23.71,
        ),
        (
            {
                "source": "revisiting",
                "table": "Table 6",
                "method": "r_margin",
                "metric": "map_c",
                "variant": {"beta": "1.2"},
            },
            42.55,
        ),
        (
            {
                "source": "revisiting",
                "table": "Table 8",
                "method": "proxy_nca",
                "metric": "f1",
                "variant": {"sampler": "spc_8"},
            },
            33.35,
        ),
        (
            {
                "source": "deep-dive",
                "method": "arcface",
                "trunk": "googlenet",
                "embedding_size": 512,
                "metric": "recall_at_4",
            },
            81.95,
        ),
        (
            {"source": "deep-dive", "method": "proxy_proxy", "dataset": "sop", "metric": "recall_at_1000"},
            98.99,
        ),
        ({"source": "deep-dive", "dataset": "sop", "trunk": "resnet50", "metric": "gamma"}, 0.25),
    ],
)
def test_spot_checks(filters, expected):
    assert value(**filters) == expected


def test_misprints_are_kept_and_flagged():
    (comma,) = [cell for cell in CELLS if cell.printed == "88,44"]
    assert comma.value == 88.44
    assert "comma" in comma.note
    (images,) = results(source="deep-dive", dataset="sop", metric="images")
    assert images.printed == "120023"
    assert "120053" in images.note
    (mean,) = results(source="deep-dive", method="triplet", metric="rank_mean")
    assert mean.printed == "8.85"
    assert "8.58" in mean.note
