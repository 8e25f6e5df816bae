"""Re-ranking is tuned on development data, scored on other classes, and reported with and without."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from levelfield import metrics
from levelfield.cli._app import app
from levelfield.core.errors import UsageError
from levelfield.retrieval.rerank import RERANKERS, RetrievalSet, compare_rerankers, nearest


def rings(classes: int, *, seed: int, first: int = 0, each: int = 12) -> RetrievalSet:
    """Return classes that are elongated, each in its own direction; neighbors of neighbors help there."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(classes).repeat_interleave(each)
    centers, lengths = (torch.randn(classes, 12, generator=generator) for _ in range(2))
    places = torch.linspace(-1, 1, each).repeat(classes)[:, None]
    noise = 0.15 * torch.randn(len(labels), 12, generator=generator)
    return RetrievalSet(centers[labels] + 0.8 * places * lengths[labels] + noise, labels + first)


@pytest.mark.slow
def test_the_plain_ranking_equals_evaluate_and_every_method_reports_its_gain() -> None:
    test, development = rings(20, seed=0, first=100), rings(20, seed=1)
    names = ("map_at_100", "map_at_r", "precision_at_1")
    results = compare_rerankers(test, development, metrics=names)
    assert [result.name for result in results] == ["none", *RERANKERS]
    wanted = metrics.evaluate(test.queries, test.labels, metrics=names)
    for name in names:
        assert results[0].scores[name].value == pytest.approx(wanted[name])
        for result in results[1:]:
            gain = result.gains[name]
            assert gain.low <= gain.value <= gain.high
            assert gain.value == pytest.approx(result.scores[name].value - wanted[name])
    gains = {result.name: result.gains["map_at_r"] for result in results}
    assert gains["k_reciprocal"].low > 0
    assert gains["alpha_qe"].low > 0


def test_the_test_set_does_not_choose_parameters() -> None:
    development = rings(12, seed=1)
    chosen = [
        compare_rerankers(rings(6, seed=seed, first=50), development, names=["alpha_qe"])[1].parameters
        for seed in range(3)
    ]
    assert chosen[0] == chosen[1] == chosen[2]


def test_no_method_is_limited_to_the_first_rows_of_the_plain_ranking() -> None:
    """Neighbors of neighbors are found although many rows are nearer to the query."""
    data = rings(20, seed=0)
    data = data.replace_vectors(torch.nn.functional.normalize(data.queries, dim=1))
    plain = nearest(data.queries, data.queries, 6, exclude_self=True)[0]
    for name, setting in (
        ("k_reciprocal", {"k1": 8, "k2": 3, "weight": 0.1}),
        ("diffusion", {"neighbors": 4, "gamma": 3.0, "flow": 0.9}),
    ):
        rows = RERANKERS[name].rank(data, 3, data.queries, **setting)
        far = [not set(new) <= set(old) for new, old in zip(rows.tolist(), plain.tolist(), strict=True)]
        assert any(far), name


def test_classes_in_common_are_refused() -> None:
    with pytest.raises(UsageError, match="shares classes"):
        compare_rerankers(rings(6, seed=0), rings(6, seed=1))


def test_an_unknown_method_is_rejected() -> None:
    with pytest.raises(UsageError, match='did you mean "dba"'):
        compare_rerankers(rings(6, seed=0, first=9), rings(6, seed=1), names=["dbaa"])


def save(file: Path, data: RetrievalSet) -> Path:
    np.savez(file, embeddings=data.queries.numpy(), labels=data.labels.numpy())
    return file


def test_the_verb(tmp_path: Path) -> None:
    test = save(tmp_path / "test.npz", rings(8, seed=0, first=100))
    gallery = save(tmp_path / "gallery.npz", rings(8, seed=0, first=100))
    development = save(tmp_path / "development.npz", rings(8, seed=1))
    arguments = ["evaluate", str(test), "--rerank", "aqe", "--rerank", "dba"]
    given = ["--development", str(development)]
    done = CliRunner().invoke(app, [*arguments, *given, "--gallery", str(gallery), "--json"])
    assert done.exit_code == 0, done.output
    results = json.loads(done.stdout)
    assert [result["name"] for result in results] == ["none", "aqe", "dba"]
    assert set(results[1]["gains"]) == {"map_at_100", "map_at_r", "precision_at_1"}
    shown = CliRunner().invoke(app, [*arguments, *given, "-m", "map_at_r"])
    assert "dba" in shown.stdout
    refused = CliRunner().invoke(app, arguments)
    assert isinstance(refused.exception, UsageError)
    assert "--development" in str(refused.exception)
