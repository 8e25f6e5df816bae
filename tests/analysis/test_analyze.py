"""A difference counts only if neither the queries nor the seeds explain it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.helpers.built_in import built_in_methods

from levelfield.analysis import analyze, conclude_experiment, filter_pairs, read_comparison, read_confirmation
from levelfield.core.errors import UsageError

Writer = Callable[..., Path]


def verdicts(root: Path, **options: Any) -> dict[tuple[str, str], str]:
    return {(f.first, f.second): f.verdict for f in analyze(root, **options).pairs}


def test_equal_methods_are_alike_and_a_large_gap_is_found(write_experiment: Writer) -> None:
    found = verdicts(write_experiment())
    assert len(found) == 6  # every pair of four
    alike = {frozenset(pair) for pair, verdict in found.items() if verdict == "undecided"}
    assert alike == {frozenset({"contrastive", "triplet"})}
    assert all(verdict != "worse" for verdict in found.values())  # the better mean comes first


def test_what_the_queries_prove_the_seeds_may_still_explain(write_experiment: Writer) -> None:
    means = {"contrastive": 0.52, "triplet": 0.50, "untrained": 0.1}
    root = write_experiment(means=means, rerun_noise=0.03, query_noise=0.01, queries=2000)
    (pair,) = [f for f in analyze(root).pairs if "untrained" not in (f.first, f.second)]
    assert pair.verdict == "undecided" and ": undecided, difference " in pair.sentence


def test_what_the_seeds_prove_the_queries_may_still_explain(write_experiment: Writer) -> None:
    means = {"contrastive": 0.501, "triplet": 0.500, "untrained": 0.1}
    root = write_experiment(means=means, rerun_noise=0.0, query_noise=0.5, queries=50, reruns=10)
    (pair,) = [f for f in analyze(root).pairs if "untrained" not in (f.first, f.second)]
    assert pair.reruns == 10 and pair.verdict == "undecided"


def test_a_pair_agrees_with_the_table(write_experiment: Writer) -> None:
    analysis = analyze(write_experiment())
    means = {r.method: r.seed_interval("concatenated", "map_at_r").mean for r in analysis.comparison.results}
    for pair in analysis.pairs:
        assert pair.difference == pytest.approx(means[pair.first] - means[pair.second], abs=1e-6)
        assert pair.judged.low <= pair.difference <= pair.judged.high


@pytest.mark.slow
def test_queries_of_one_class_are_not_so_many_witnesses(write_experiment: Writer) -> None:
    """Version 0.1 asked 400 queries; here they are ten classes, of which some suit a method by chance."""
    root = write_experiment()
    member = np.repeat(np.arange(10), 40)
    luck = np.random.default_rng(0)
    for directory in sorted(root.glob("confirmations/*")):
        suits = 0.1 * luck.standard_normal(10)[member]
        rewrite(directory, partial(merge_shift, by=suits))
    too_sure = analyze(root)
    for directory in root.glob("confirmations/*"):
        rewrite(directory, lambda arrays: arrays | {"classes": member})
    honest = analyze(root)
    assert any("do not name the classes" in caveat for caveat in too_sure.caveats)
    assert not any("do not name the classes" in caveat for caveat in honest.caveats)
    assert {f.classes for f in honest.pairs} == {10}
    for before, after in zip(too_sure.pairs, honest.pairs, strict=True):
        assert after.difference == before.difference
        assert after.judged.high - after.judged.low > 2 * (before.judged.high - before.judged.low)


def rewrite(directory: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    for file in directory.glob("*.safetensors"):
        arrays = {name: np.array(values) for name, values in load_file(file).items()}
        save_file({name: np.ascontiguousarray(a) for name, a in change(arrays).items()}, file)


def merge_shift(arrays: dict[str, Any], by: Any) -> dict[str, Any]:
    return arrays | shifted(arrays, by)


def shifted(arrays: dict[str, Any], by: Any) -> dict[str, Any]:
    return {name: (a + by).astype(np.float32) for name, a in arrays.items() if "." in name}


@pytest.mark.slow
def test_many_methods_do_not_hide_a_clear_difference(write_experiment: Writer) -> None:
    """The correction for 780 pairs is drawn at random; p-values may still be smaller than one draw."""
    names = [name for name in built_in_methods() if "." not in name][:39]
    means = {name: 0.5 for name in names[1:]} | {names[0]: 0.8, "untrained": 0.1}
    root = write_experiment(means=means, queries=100, metrics=("map_at_r",), trials=1)
    best = [f for f in analyze(root).pairs if f.first == names[0]]
    assert len(best) == len(means) - 1 and {f.verdict for f in best} == {"better"}


def test_a_pretrained_network_pairs_with_every_rerun(write_experiment: Writer) -> None:
    root = write_experiment(means={"contrastive": 0.5, "pretrained": 0.2}, baseline="pretrained")
    analysis = analyze(root)
    (pair,) = analysis.pairs
    assert analysis.confirmations["pretrained"].fixed
    assert pair.reruns == 3
    assert pair.verdict == "better"


@pytest.mark.slow
def test_a_failed_rerun_is_left_out_of_the_pairs(write_experiment: Writer) -> None:
    root = write_experiment()
    comparison = read_comparison(root)
    triplet = next(r for r in comparison.results if r.method == "triplet")
    file = (root / read_confirmation(root, triplet).arrays[0, 1].name).with_suffix(".json")
    file.write_text(json.dumps({"failed": "the loss is NaN"}))
    analysis = analyze(root)
    assert list(analysis.confirmations["triplet"].reruns) == [(0, 0), (0, 2)]
    assert {f.reruns for f in analysis.pairs if "triplet" in (f.first, f.second)} == {2}
    assert {f.reruns for f in analysis.pairs if "triplet" not in (f.first, f.second)} == {3}


def test_one_rerun_leaves_the_queries_to_decide(write_experiment: Writer) -> None:
    analysis = analyze(write_experiment(reruns=1))
    assert any("trained once" in caveat for caveat in analysis.caveats)
    assert any(f.verdict == "better" for f in analysis.pairs)
    assert "trained once, so the luck of the seeds is not counted" in conclude_experiment(analysis).text


def test_a_metric_of_the_whole_space_is_decided_by_reruns(write_experiment: Writer) -> None:
    root = write_experiment(metrics=("map_at_r", "nmi"))
    analysis = analyze(root, metric="nmi")
    assert all(f.classes == 0 for f in analysis.pairs)
    assert {"contrastive", "triplet"} == analysis.leaders["concatenated", "nmi"]
    assert any("no values per query" in caveat for caveat in analysis.caveats)


def test_one_rerun_of_a_metric_of_the_whole_space_proves_nothing(write_experiment: Writer) -> None:
    analysis = analyze(write_experiment(metrics=("map_at_r", "nmi"), reruns=1), metric="nmi")
    assert {f.verdict for f in analysis.pairs} == {"undecided"}
    assert "nothing to test it by" in analysis.pairs[0].sentence


def test_unscored_queries_are_left_out_of_every_method(write_experiment: Writer) -> None:
    root = write_experiment()
    for directory in root.glob("confirmations/*"):
        rewrite(directory, unscored)
    assert {f.classes for f in analyze(root).pairs} == {370}  # without classes each query is its own


def unscored(arrays: dict[str, Any]) -> dict[str, Any]:
    arrays["concatenated.map_at_r"][:30] = np.nan
    return arrays


def test_against_one_method_makes_it_the_second(write_experiment: Writer) -> None:
    analysis = analyze(write_experiment(), setting="separated")
    found = filter_pairs(analysis, "arcface").pairs
    assert {f.second for f in found} == {"arcface"} and len(found) == 3
    assert {f.first: f.verdict for f in found}["untrained"] == "worse"
    assert {f.second for f in filter_pairs(analysis, "best").pairs} == {next(iter(analysis.means))}
    with pytest.raises(UsageError, match=r"did you mean.*arcface"):
        filter_pairs(analysis, "arcfac")


def test_leaders_are_the_best_and_those_like_it(write_experiment: Writer) -> None:
    analysis = analyze(write_experiment())
    assert analysis.leaders["separated", "r_precision"] == {"contrastive", "triplet"}
    assert set(analysis.leaders) == {
        (s, m) for s in ("separated", "concatenated") for m in analysis.comparison.metrics
    }


@pytest.mark.slow
def test_half_a_point_does_not_matter_unless_told_otherwise(write_experiment: Writer) -> None:
    root = write_experiment()
    assert {pair.judged.margin for pair in analyze(root).pairs} == {0.005}
    assert {pair.judged.margin for pair in analyze(root, equivalence=0.0).pairs} == {None}
    with pytest.raises(UsageError, match="0 or more"):
        analyze(root, equivalence=-1.0)


def test_equivalence_is_in_the_unit_of_the_tables(write_experiment: Writer) -> None:
    analysis = analyze(write_experiment(), equivalence=5.0)
    found = {frozenset((f.first, f.second)): f for f in analysis.pairs}
    alike = found[frozenset(("contrastive", "triplet"))]
    assert alike.verdict == "equivalent" and "equivalent within 5.00 points" in alike.sentence
    assert found[frozenset(("contrastive", "arcface"))].verdict == "better"


@pytest.mark.parametrize(
    ("options", "message"),
    [({"metric": "map_at"}, "no metric"), ({"setting": "together"}, "unknown setting")],
)
def test_wrong_names_are_refused(write_experiment: Writer, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        analyze(write_experiment(), **options)
