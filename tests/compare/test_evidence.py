"""A difference counts only if neither the queries nor the seeds explain it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from levelfield import methods
from levelfield.compare import collect, focus, read_confirmation, weigh
from levelfield.errors import UsageError

Writer = Callable[..., Path]


def verdicts(root: Path, **options: str) -> dict[tuple[str, str], str]:
    return {(f.first, f.second): f.verdict for f in weigh(root, **options).findings}


def test_equal_methods_are_alike_and_a_large_gap_is_found(write_experiment: Writer) -> None:
    found = verdicts(write_experiment())
    assert len(found) == 6  # every pair of four
    alike = {frozenset(pair) for pair, verdict in found.items() if verdict == "undecided"}
    assert alike == {frozenset({"contrastive", "triplet"})}
    assert all(verdict != "worse" for verdict in found.values())  # the better mean comes first


def test_what_the_queries_prove_the_seeds_may_still_explain(write_experiment: Writer) -> None:
    means = {"contrastive": 0.52, "triplet": 0.50, "untrained": 0.1}
    root = write_experiment(means=means, rerun_noise=0.03, query_noise=0.01, queries=2000)
    (finding,) = [f for f in weigh(root).findings if "untrained" not in (f.first, f.second)]
    assert finding.verdict == "undecided" and ": undecided, difference " in finding.sentence


def test_what_the_seeds_prove_the_queries_may_still_explain(write_experiment: Writer) -> None:
    means = {"contrastive": 0.501, "triplet": 0.500, "untrained": 0.1}
    root = write_experiment(means=means, rerun_noise=0.0, query_noise=0.5, queries=50, reruns=10)
    (finding,) = [f for f in weigh(root).findings if "untrained" not in (f.first, f.second)]
    assert finding.reruns == 10 and finding.verdict == "undecided"


def test_a_finding_agrees_with_the_table(write_experiment: Writer) -> None:
    evidence = weigh(write_experiment())
    means = {r.method: r.interval("concatenated", "map_at_r").mean for r in evidence.comparison.results}
    for finding in evidence.findings:
        assert finding.difference == pytest.approx(means[finding.first] - means[finding.second], abs=1e-6)
        assert finding.pair.low <= finding.difference <= finding.pair.high


def test_queries_of_one_class_are_not_so_many_witnesses(write_experiment: Writer) -> None:
    """Version 0.1 asked 400 queries; here they are ten classes, of which some suit a method by chance."""
    root = write_experiment()
    member = np.repeat(np.arange(10), 40)
    luck = np.random.default_rng(0)
    for folder in sorted(root.glob("confirmations/*")):
        suits = 0.1 * luck.standard_normal(10)[member]
        rewrite(folder, lambda arrays, suits=suits: arrays | shifted(arrays, suits))
    too_sure = weigh(root)
    for folder in root.glob("confirmations/*"):
        rewrite(folder, lambda arrays: arrays | {"classes": member})
    honest = weigh(root)
    assert any("do not name the classes" in caveat for caveat in too_sure.caveats)
    assert not any("do not name the classes" in caveat for caveat in honest.caveats)
    assert {f.classes for f in honest.findings} == {10}
    for before, after in zip(too_sure.findings, honest.findings, strict=True):
        assert after.difference == before.difference
        assert after.pair.high - after.pair.low > 2 * (before.pair.high - before.pair.low)


def rewrite(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    for file in folder.glob("*.safetensors"):
        arrays = {name: np.array(values) for name, values in load_file(file).items()}
        save_file({name: np.ascontiguousarray(a) for name, a in change(arrays).items()}, file)


def shifted(arrays: dict[str, Any], by: Any) -> dict[str, Any]:
    return {name: (a + by).astype(np.float32) for name, a in arrays.items() if "." in name}


def test_many_methods_do_not_hide_a_clear_difference(write_experiment: Writer) -> None:
    """The correction for 780 pairs is drawn at random; p-values may still be smaller than one draw."""
    names = [name for name in methods.names() if "." not in name][:39]
    means = {name: 0.5 for name in names[1:]} | {names[0]: 0.8, "untrained": 0.1}
    root = write_experiment(means=means, queries=100, metrics=("map_at_r",), trials=1)
    best = [f for f in weigh(root).findings if f.first == names[0]]
    assert len(best) == len(means) - 1 and {f.verdict for f in best} == {"better"}


def test_a_pretrained_network_pairs_with_every_rerun(write_experiment: Writer) -> None:
    root = write_experiment(means={"contrastive": 0.5, "pretrained": 0.2}, baseline="pretrained")
    evidence = weigh(root)
    (finding,) = evidence.findings
    assert evidence.confirmations["pretrained"].fixed
    assert finding.reruns == 3
    assert finding.verdict == "better"


def test_a_failed_rerun_is_left_out_of_the_pairs(write_experiment: Writer) -> None:
    root = write_experiment()
    comparison = collect(root)
    triplet = next(r for r in comparison.results if r.method == "triplet")
    file = read_confirmation(root, triplet).arrays[0, 1].with_suffix(".json")
    file.write_text(json.dumps({"failed": "the loss is NaN"}))
    evidence = weigh(root)
    assert list(evidence.confirmations["triplet"].reruns) == [(0, 0), (0, 2)]
    assert {f.reruns for f in evidence.findings if "triplet" in (f.first, f.second)} == {2}
    assert {f.reruns for f in evidence.findings if "triplet" not in (f.first, f.second)} == {3}


def test_one_rerun_leaves_the_queries_to_decide(write_experiment: Writer) -> None:
    evidence = weigh(write_experiment(reruns=1))
    assert any("trained once" in caveat for caveat in evidence.caveats)
    assert any(f.verdict == "better" for f in evidence.findings)


def test_a_measure_of_the_whole_space_is_decided_by_reruns(write_experiment: Writer) -> None:
    root = write_experiment(metrics=("map_at_r", "nmi"))
    evidence = weigh(root, metric="nmi")
    assert all(f.classes == 0 for f in evidence.findings)
    assert {"contrastive", "triplet"} == evidence.leaders["concatenated", "nmi"]
    assert any("no values per query" in caveat for caveat in evidence.caveats)


def test_one_rerun_of_a_measure_of_the_whole_space_proves_nothing(write_experiment: Writer) -> None:
    evidence = weigh(write_experiment(metrics=("map_at_r", "nmi"), reruns=1), metric="nmi")
    assert {f.verdict for f in evidence.findings} == {"undecided"}
    assert "nothing to test it by" in evidence.findings[0].sentence


def test_unscored_queries_are_left_out_of_every_method(write_experiment: Writer) -> None:
    root = write_experiment()
    for folder in root.glob("confirmations/*"):
        rewrite(folder, unscored)
    assert {f.classes for f in weigh(root).findings} == {370}  # without classes each query is its own


def unscored(arrays: dict[str, Any]) -> dict[str, Any]:
    arrays["concatenated.map_at_r"][:30] = np.nan
    return arrays


def test_against_one_method_makes_it_the_second(write_experiment: Writer) -> None:
    evidence = weigh(write_experiment(), setting="separated")
    found = focus(evidence, "arcface").findings
    assert {f.second for f in found} == {"arcface"} and len(found) == 3
    assert {f.first: f.verdict for f in found}["untrained"] == "worse"
    assert {f.second for f in focus(evidence, "best").findings} == {next(iter(evidence.means))}
    with pytest.raises(UsageError, match=r"did you mean.*arcface"):
        focus(evidence, "arcfac")


def test_leaders_are_the_best_and_those_like_it(write_experiment: Writer) -> None:
    evidence = weigh(write_experiment())
    assert evidence.leaders["separated", "r_precision"] == {"contrastive", "triplet"}
    assert set(evidence.leaders) == {
        (s, m) for s in ("separated", "concatenated") for m in evidence.comparison.metrics
    }


def test_half_a_point_does_not_matter_unless_told_otherwise(write_experiment: Writer) -> None:
    root = write_experiment()
    assert {finding.pair.margin for finding in weigh(root).findings} == {0.005}
    assert {finding.pair.margin for finding in weigh(root, equivalence=0.0).findings} == {None}
    with pytest.raises(UsageError, match="0 or more"):
        weigh(root, equivalence=-1.0)


def test_equivalence_is_in_the_unit_of_the_tables(write_experiment: Writer) -> None:
    evidence = weigh(write_experiment(), equivalence=5.0)
    found = {frozenset((f.first, f.second)): f for f in evidence.findings}
    alike = found[frozenset(("contrastive", "triplet"))]
    assert alike.verdict == "equivalent" and "equivalent within 5.00 points" in alike.sentence
    assert found[frozenset(("contrastive", "arcface"))].verdict == "better"


@pytest.mark.parametrize(
    ("options", "message"),
    [({"metric": "map_at"}, "no metric"), ({"setting": "together"}, "unknown setting")],
)
def test_wrong_names_are_refused(write_experiment: Writer, options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        weigh(write_experiment(), **options)  # type: ignore[arg-type]
