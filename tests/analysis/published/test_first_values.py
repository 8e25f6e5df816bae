"""First values and ranges of `reality-check-2026`, each with its source, as docs/presets.md prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelfield import methods
from levelfield.analysis import published
from levelfield.config import Experiment
from levelfield.core.space import describe_range
from levelfield.methods import LOSS_LR, Method

FIRST = {  # of the first trial; rates of class weights have a source of their own, see RATES
    "contrastive": "Revisiting, A.1",
    "triplet": "the paper",
    "ntxent": "the paper",
    "proxy_nca": "the paper: it has no scale",
    "margin": "the paper",
    "margin_class": "the paper",
    "normalized_softmax": "the paper",
    "cosface": "the paper",
    "arcface": "the paper: 0.5 radians",
    "fastap": "the paper",
    "snr_contrastive": "margins: `contrastive`; weight: Revisiting, A.1, for the triplet form",
    "multi_similarity": "the paper; base: the authors' code, the paper has 1",
    "multi_similarity_miner": "the paper; base: the authors' code, the paper has 1",
    "soft_triple": "the paper",
    "proxy_anchor": "the paper",
    "proxy_nca_pp": "the paper",
    "circle": "the paper, for fine-grained retrieval",
    "supcon": "the paper",
    "roadmap": "the authors' configuration",
    "hist": "the authors' code, for Cars; CUB has alpha 1.1",
    "contextual": "the authors' code, `main.py`",
    "ms_tcm": "`multi_similarity`; margins 0.9, 0.5 and weight 1 (not searched): pytorch-metric-learning's",
}
RATES = {
    "margin": "Revisiting",
    "margin_class": "Revisiting",
    "proxy_anchor": "authors' code",
    "proxy_nca_pp": "`proxy_nca`",
    "hist": "authors' code",
}
AMID = "amid the optima of the reality check"
LATER = "ours, around the first value"


def the_methods() -> list[Method]:
    specs = Experiment.build(name="x", preset="reality-check-2026").methods
    return [methods.resolve_method(spec) for spec in specs]


def optima_of(method: Method) -> list[published.Optimum]:
    found = published.optima()
    return [row for row in found if row.method in (method.name, method.loss) and row.value is not None]


def table() -> str:
    lines = ["| method | begins at | source | searched | source |", "|---|---|---|---|---|"]
    for method in the_methods():
        values, space = method.defaults(), method.space
        begins = ", ".join(f"{name} {values[name]:g}" for name in space)
        source = FIRST[method.name]
        if LOSS_LR in space:
            source += f"; rate: {RATES.get(method.name, AMID)}"
        searched = ", ".join(describe_range(space[name]) for name in space)
        found = "ours, around all published optima" if optima_of(method) else LATER
        lines.append(f"| {method.name} | {begins} | {source} | {searched} | {found} |")
    return "\n".join(lines)


@pytest.mark.parametrize("method", the_methods(), ids=lambda method: method.name)
def test_every_published_optimum_lies_in_our_range(method: Method) -> None:
    for row in optima_of(method):
        if row.parameter in method.space:
            assert method.space[row.parameter].contains(row.value), row


def test_the_docs_say_where_each_method_begins_and_searches() -> None:
    text = (Path(__file__).parents[3] / "docs" / "presets.md").read_text()
    assert table() in text, f"put this into docs/presets.md:\n{table()}"
