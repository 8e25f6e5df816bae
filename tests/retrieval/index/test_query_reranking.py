"""Re-ranking of one search equals the re-ranking functions on the whole index."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.retrieval.index.conftest import draw, fill, make_model
from typer.testing import CliRunner

import levelfield as lf
from levelfield.cli._app import app
from levelfield.core.errors import UsageError
from levelfield.retrieval.embedders import MatchThreshold
from levelfield.retrieval.index import Reranking, images_from_folder, update_index
from levelfield.retrieval.index.result_page import summarize_answer
from levelfield.retrieval.rerank import expand_queries, nearest, rerank_k_reciprocal


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> lf.Searcher:
    root = tmp_path_factory.mktemp("rerank")
    model = make_model(root / "model")
    images = images_from_folder(fill(root / "photos", 60))
    update_index(str(root / "index"), model, lf.load_embedder(model), images, threads=1)
    return lf.Searcher(root / "index")


def gallery(searcher: lf.Searcher, rows: range | list[int]) -> torch.Tensor:
    return torch.from_numpy(searcher.store.vectors(np.array(rows)))


@pytest.mark.parametrize("filters", [[], ["label=class1"]], ids=["all", "filtered"])
@pytest.mark.parametrize("name", ["k_reciprocal", "aqe", "alpha_qe"])
def test_one_search_is_ordered_as_the_paper_orders_it(
    searcher: lf.Searcher, name: str, filters: list[str]
) -> None:
    rows = [
        row
        for row in range(60)
        if not filters or row in {n.row for n in searcher.search(draw(0), k=60, filters=filters).neighbors}
    ]
    vectors, query = gallery(searcher, rows), searcher.embedder.embed(draw(901))
    if name == "k_reciprocal":
        order = rerank_k_reciprocal(query, vectors, count=len(rows), k1=8, k2=3, weight=0.3)
        given = Reranking(name, {"k1": 8, "k2": 3})
    else:
        alpha = 1.0 if name == "alpha_qe" else 0.0
        order, _ = nearest(expand_queries(query, vectors, neighbors=4, alpha=alpha), vectors, len(rows))
        given = Reranking(name)
    answer = searcher.search_vector(query[0], k=12, filters=filters, rerank=given)
    assert [each.row for each in answer.neighbors] == [rows[place] for place in order[0].tolist()][:12]
    for each in answer.neighbors:
        assert each.similarity == pytest.approx(float(gallery(searcher, [each.row])[0] @ query[0]), abs=1e-5)
    assert any(name in note for note in answer.notes)


def test_the_order_changes_and_the_similarities_do_not(searcher: lf.Searcher) -> None:
    plain = searcher.search(draw(902), k=60).neighbors
    other = searcher.search(draw(902), k=60, rerank="k_reciprocal").neighbors
    assert [each.row for each in plain] != [each.row for each in other]
    assert {each.row: round(each.similarity, 4) for each in plain} == {
        each.row: round(each.similarity, 4) for each in other
    }


def test_a_match_is_reported_even_if_the_re_ranking_does_not_show_it(searcher: lf.Searcher) -> None:
    answers = (searcher.search(draw(seed), k=1, rerank="k_reciprocal") for seed in range(950, 990))
    answer = next(each for each in answers if each.nearest != pytest.approx(each.neighbors[0].similarity))
    assert answer.found is None and answer.nearest is not None
    between = (answer.nearest + answer.neighbors[0].similarity) / 2
    rates = {"false_accept_rate": 0.005, "true_accept_rate": 0.5, "queries": 100, "gallery": 100}
    judged = replace(answer, threshold=MatchThreshold(similarity=between, **rates))
    assert judged.found is True
    assert summarize_answer(judged).startswith("No match among these, but another image reaches similarity")
    assert "at most 0.5% of images" in summarize_answer(judged)
    assert replace(judged, nearest=None).found is False


def test_the_command_re_ranks(searcher: lf.Searcher, tmp_path: Path) -> None:
    draw(903).save(tmp_path / "query.png")
    directory = str(searcher.store.directory)  # type: ignore[attr-defined]  # stores in files have it
    answer = CliRunner().invoke(
        app, ["search", directory, str(tmp_path / "query.png"), "--rerank", "aqe", "-k", "3"]
    )
    assert answer.exit_code == 0 and "ordered by aqe" in answer.output


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("k_reciprocl", {}, "k_reciprocal"),
        ("aqe", {"alpha": 1.0}, "no parameter"),
        ("aqe", {"neighbors": 0}, "from 1"),
        ("k_reciprocal", {"k1": 10**9}, "from 1"),
        ("alpha_qe", {"alpha": -1.0}, "from 0"),
    ],
)
def test_bad_names_and_parameters_get_one_line(name: str, options: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Reranking(name, options)
