"""A difference counts only if neither the queries nor the seeds explain it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from levelfield import methods
from levelfield.compare import Measure, collect, find, leaders_of, read_confirmation, weigh
from levelfield.errors import UsageError
from levelfield.stats import compare_pairs

Writer = Callable[..., Path]
MAP_AT_R = Measure(name="map_at_r", label="MAP@R", unit="percent", higher_is_better=True)


def verdicts(root: Path, **options: str) -> dict[tuple[str, str], str]:
    return {(f.first, f.second): f.verdict for f in weigh(root, **options).findings}


def test_equal_methods_are_alike_and_a_large_gap_is_found(write_experiment: Writer) -> None:
    found = verdicts(write_experiment())
    assert len(found) == 6  # every pair of four
    alike = {frozenset(pair) for pair, verdict in found.items() if verdict == "not distinguishable"}
    assert alike == {frozenset({"contrastive", "triplet"})}
    assert all(verdict != "worse" for verdict in found.values())  # the better mean comes first


def test_what_the_queries_prove_the_seeds_may_still_explain(write_experiment: Writer) -> None:
    means = {"contrastive": 0.52, "triplet": 0.50, "untrained": 0.1}
    root = write_experiment(means=means, rerun_noise=0.03, query_noise=0.01, queries=2000)
    (finding,) = [f for f in weigh(root).findings if "untrained" not in (f.first, f.second)]
    assert finding.queries is not None and finding.queries.p_adjusted < 0.001
    assert finding.verdict == "not distinguishable"
    assert "not distinguishable" in finding.sentence and "over 3 reruns" in finding.sentence


def test_what_the_seeds_prove_the_queries_may_still_explain(write_experiment: Writer) -> None:
    means = {"contrastive": 0.501, "triplet": 0.500, "untrained": 0.1}
    root = write_experiment(means=means, rerun_noise=0.0, query_noise=0.5, queries=50, reruns=10)
    (finding,) = [f for f in weigh(root).findings if "untrained" not in (f.first, f.second)]
    assert finding.reruns is not None and finding.verdict == "not distinguishable"


def test_a_finding_agrees_with_the_paired_tests_and_the_table(write_experiment: Writer) -> None:
    root = write_experiment()
    evidence = weigh(root)
    values = {
        method: confirmation.per_query("concatenated", "map_at_r")
        for method, confirmation in evidence.confirmations.items()
    }
    assert all(v is not None for v in values.values())
    expected = {frozenset((p.first, p.second)): p for p in compare_pairs(values)}  # type: ignore[arg-type]
    means = {r.method: r.interval("concatenated", "map_at_r").mean for r in evidence.comparison.results}
    for finding in evidence.findings:
        pair = expected[frozenset((finding.first, finding.second))]
        assert finding.queries is not None
        at_bound = finding.queries.p_value < 2 / 10_001
        assert at_bound or finding.queries.p_value <= finding.p_value <= finding.p_adjusted
        assert finding.queries.d == pytest.approx(abs(pair.d))
        assert finding.difference == pytest.approx(means[finding.first] - means[finding.second])
        assert finding.difference == pytest.approx(finding.queries.difference.mean, abs=1e-6)


def test_many_methods_do_not_hide_a_clear_difference(write_experiment: Writer) -> None:
    """Holm's correction for 780 pairs would lift the least p-value of 10,000 permutations above 5%."""
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
    assert finding.reruns is not None and finding.reruns.n == 3
    assert finding.verdict == "better"


def test_a_failed_rerun_is_left_out_of_the_pairs(write_experiment: Writer) -> None:
    root = write_experiment()
    comparison = collect(root)
    triplet = next(r for r in comparison.results if r.method == "triplet")
    file = read_confirmation(root, comparison, triplet).arrays[1].with_suffix(".json")
    file.write_text(json.dumps({"failed": "the loss is NaN"}))
    evidence = weigh(root)
    assert list(evidence.confirmations["triplet"].reruns) == [0, 2]
    assert {f.reruns.n for f in evidence.findings if f.reruns and "triplet" in (f.first, f.second)} == {2}
    assert {f.reruns.n for f in evidence.findings if f.reruns and "triplet" not in (f.first, f.second)} == {3}


def test_one_rerun_leaves_the_queries_to_decide(write_experiment: Writer) -> None:
    found = weigh(write_experiment(reruns=1)).findings
    assert all(f.reruns is None for f in found)
    assert any(f.verdict == "better" for f in found)


def test_a_measure_of_the_whole_space_is_decided_by_reruns(write_experiment: Writer) -> None:
    root = write_experiment(metrics=("map_at_r", "nmi"))
    evidence = weigh(root, metric="nmi")
    assert all(f.queries is None for f in evidence.findings)
    assert {"contrastive", "triplet"} == evidence.leaders["concatenated", "nmi"]
    assert "queries" not in evidence.findings[0].sentence


def test_one_rerun_of_a_measure_of_the_whole_space_proves_nothing(write_experiment: Writer) -> None:
    evidence = weigh(write_experiment(metrics=("map_at_r", "nmi"), reruns=1), metric="nmi")
    assert {f.verdict for f in evidence.findings} == {"not distinguishable"}
    assert "nothing to test it by" in evidence.findings[0].sentence


def test_unscored_queries_are_left_out_of_every_method(write_experiment: Writer) -> None:
    from safetensors.numpy import load_file, save_file

    root = write_experiment()
    for file in root.glob("confirmations/*/*.safetensors"):
        arrays = {name: np.array(values) for name, values in load_file(file).items()}
        arrays["concatenated.map_at_r"][:30] = np.nan
        save_file(arrays, file)
    assert {f.queries.difference.n for f in weigh(root).findings if f.queries} == {370}


def test_against_one_method_makes_it_the_second(write_experiment: Writer) -> None:
    evidence = weigh(write_experiment())
    found = find(evidence.confirmations, "separated", MAP_AT_R, against="arcface")
    assert {f.second for f in found} == {"arcface"} and len(found) == 3
    assert {f.first: f.verdict for f in found}["untrained"] == "worse"
    with pytest.raises(UsageError, match=r"did you mean.*arcface"):
        find(evidence.confirmations, "separated", MAP_AT_R, against="arcfac")


def test_leaders_are_the_best_and_those_like_it(write_experiment: Writer) -> None:
    evidence = weigh(write_experiment())
    assert leaders_of(evidence.confirmations, "separated", evidence.comparison.measures["r_precision"]) == {
        "contrastive",
        "triplet",
    }
    assert set(evidence.leaders) == {
        (s, m) for s in ("separated", "concatenated") for m in evidence.comparison.metrics
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [({"metric": "map_at"}, "no metric"), ({"setting": "together"}, "unknown setting")],
)
def test_wrong_names_are_refused(write_experiment: Writer, options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        weigh(write_experiment(), **options)  # type: ignore[arg-type]
