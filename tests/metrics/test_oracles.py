"""Every registered metric agrees with a slow, obvious oracle."""

from __future__ import annotations

import numpy as np
import pytest
from tests.oracles import metrics as retrieval
from tests.oracles import metrics_structure as structure

from levelfield import metrics
from levelfield.metrics._clusters import contingency

K = 5

CLUSTERING = {"nmi": structure.nmi, "ami": structure.ami, "f1": structure.pair_f1}
STRUCTURE = {
    "rho": lambda rows, labels: structure.rho(rows),
    "rho_class": structure.rho_class,
    "pi_intra": structure.pi_intra,
    "pi_inter": structure.pi_inter,
    "pi_ratio": lambda rows, labels: structure.pi_intra(rows, labels) / structure.pi_inter(rows, labels),
    "alignment": structure.alignment,
    "uniformity": lambda rows, labels: structure.uniformity(rows),
}
KINDS = {name: metrics.registry[name].card.kind for name in metrics.registry.names()}


def sample(seed=0, n=60):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 9, n)
    return random.normal(size=(9, 5))[labels] + random.normal(size=(n, 5)), labels


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind == "retrieval"])
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_every_retrieval_metric_agrees_with_its_oracle(name, distance):
    filled = name.replace("_at_K", f"_at_{K}")
    rows, labels = sample()
    scores = metrics.evaluate(rows, labels, metrics=(filled,), distance=distance, per_query=True)
    expected = retrieval.per_query([filled], rows, labels, distance=distance)[filled]
    np.testing.assert_allclose(scores.per_query[filled], expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind == "structure"])
def test_every_metric_of_structure_agrees_with_its_oracle(name):
    rows, labels = sample()
    value = metrics.evaluate(rows, labels, metrics=(name,))[name]
    assert value == pytest.approx(STRUCTURE[name](structure.unit(rows), labels), rel=1e-9)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind == "clustering"])
@pytest.mark.parametrize("seed", range(3))
def test_every_clustering_metric_agrees_with_its_oracle(name, seed):
    """Seven samples, so that the oracle of AMI can try every assignment of clusters."""
    random = np.random.default_rng(seed)
    labels, clusters = random.integers(0, 3, 7), random.integers(0, 3, 7)
    value = metrics.resolve_metric(name).compute(contingency(labels, clusters))
    assert value == pytest.approx(CLUSTERING[name](labels, clusters), rel=1e-9)
