"""The reality check's claims about metrics, on random embeddings and on toy spaces."""

from __future__ import annotations

import json

import pytest

from levelfield.core.errors import UsageError
from levelfield.studies import metrics_on_random, metrics_on_toys


def test_nmi_climbs_on_random_embeddings_and_the_others_do_not(tmp_path):
    table = metrics_on_random.run_study(tmp_path, samples=1000, dimensions=16, classes=(10, 100, 500))
    climb = [row["nmi"] for row in table]
    assert climb == sorted(climb)
    assert climb[-1] > 0.8
    assert climb[-1] == pytest.approx(table[-1]["nmi_predicted"], abs=0.08)
    for row in table:
        assert max(row["map_at_r"], row["r_precision"], abs(row["ami"])) < 0.12
    assert json.loads((tmp_path / "metrics-on-random.json").read_text())[0]["classes"] == 10
    assert (tmp_path / "metrics-on-random.png").stat().st_size > 5000
    assert "| 500 |" in (tmp_path / "metrics-on-random.md").read_text()


def test_recall_at_1_cannot_tell_the_toys_apart_but_map_at_r_can(tmp_path):
    said: list[str] = []
    found = metrics_on_toys.run_study(tmp_path, advance=said.append)
    torn, mixed, apart = found.values()
    recalls = [scores["precision_at_1"] for scores in found.values()]
    assert min(recalls) > 0.95
    assert max(recalls) - min(recalls) < 0.05
    assert torn["map_at_r"] + 0.05 < mixed["map_at_r"] < apart["map_at_r"] - 0.05
    for metric in ("nmi", "f1"):
        values = [scores[metric] for scores in found.values()]
        assert max(values) - min(values) < 0.05
    assert len(said) == 3
    assert (tmp_path / "metrics-on-toys.png").stat().st_size > 5000


def test_sizes_without_sense_are_refused(tmp_path):
    with pytest.raises(UsageError, match="numbers of classes from 2 to half"):
        metrics_on_random.run_study(tmp_path, samples=100, classes=(60,))
    with pytest.raises(UsageError, match="at least 32 samples"):
        metrics_on_toys.run_study(tmp_path, samples=3)
