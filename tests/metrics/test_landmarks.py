"""Solution files and submissions of the landmark challenge, against slow scores of both tracks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.oracles import metrics as oracle

from levelfield.cli._app import run_app
from levelfield.core.errors import UsageError
from levelfield.metrics.landmarks import read_solution, score_submission
from levelfield.metrics.recognition import answers_by_neighbors


def write(file: Path, *lines: str) -> Path:
    file.write_text("\n".join(lines) + "\n")
    return file


def map_at_100(answers: dict[str, list[str]], truth: dict[str, list[str]]) -> float:
    """Mean over the queries of the sum of precisions at right answers, over min(relevant, 100)."""
    total = 0.0
    for query, wanted in truth.items():
        right, score = set(), 0.0
        for rank, image in enumerate(answers.get(query, [])[:100], start=1):
            if image in wanted and image not in right:
                right.add(image)
                score += len(right) / rank
        total += score / min(len(wanted), 100)
    return total / len(truth)


@pytest.mark.parametrize("seed", range(5))
def test_retrieval_agrees_with_the_definition(tmp_path: Path, seed: int) -> None:
    """Some lists are short, some hold an image twice, some queries are not answered or are ignored."""
    random = np.random.default_rng(seed)
    names = [f"x{n}" for n in range(150)]
    truth = {f"q{n}": random.permutation(names)[: random.integers(1, 140)].tolist() for n in range(30)}
    usage = ["Public", "Private", "Ignored"]
    lines = [f"{q},{' '.join(images)},{usage[n % 3]}" for n, (q, images) in enumerate(truth.items())]
    answers = {q: random.choice(names, random.integers(0, 130)).tolist() for q in list(truth)[:27]}
    solution = read_solution(write(tmp_path / "s.csv", "id,images,Usage", *lines))
    given = write(
        tmp_path / "a.csv", "id,images", *(f"{q},{' '.join(found)}" for q, found in answers.items())
    )
    scores = score_submission(given, solution).scores
    for number, part in enumerate(("public", "private")):
        asked = {q: images for n, (q, images) in enumerate(truth.items()) if n % 3 == number}
        assert scores[part] == pytest.approx(map_at_100(answers, asked), abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_recognition_agrees_with_the_oracle(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    truth = {f"q{n}": [str(k) for k in random.integers(0, 4, random.integers(0, 3))] for n in range(40)}
    lines = [
        f"{q},{' '.join(own)},{('Public', 'Private')[n % 2]}" for n, (q, own) in enumerate(truth.items())
    ]
    answers = [(q, str(random.integers(0, 4)), round(float(random.random()), 1)) for q in list(truth)[:33]]
    solution = read_solution(write(tmp_path / "s.csv", "id,landmarks,Usage", *lines))
    given = write(tmp_path / "a.csv", "id,landmarks", *(f"{q},{k} {c}" for q, k, c in answers), "q39,")
    scores = score_submission(given, solution).scores
    for part, own in solution.parts.items():
        asked = [answer for answer in answers if answer[0] in own]
        expected = oracle.global_average_precision(asked, {query: set(each) for query, each in own.items()})
        assert scores[part] == pytest.approx(expected, abs=1e-12)


SOLUTION = ("id,images,Usage", "a,x y,Public", "b,z,Private", "c,None,Ignored")


@pytest.mark.parametrize(
    ("solution", "submission", "message"),
    [
        (("id,Usage",), (), "a solution file has id, images or landmarks, and Usage"),
        (("id,images,Usage", "a,x,Secret"), (), 'line 2: Usage is "Secret"'),
        (("id,images,Usage", "a,x,Public", "a,x,Private"), (), "line 3: query a is listed twice"),
        (("id,images,Usage", "a,,Public"), (), "line 2: query a lists no image"),
        (("id,images,Usage", "a,None,Ignored"), (), "has no Public or Private query"),
        (SOLUTION, ("id,landmarks",), "a submission to the retrieval track has id and images"),
        (SOLUTION, ("id,images", "a,x", "a,y"), "line 3: query a is answered twice"),
        (SOLUTION, ("id,images", "zz,x"), '"zz" is no query of the solution'),
        (("id,landmarks,Usage", "a,1,Public"), ("id,landmarks", "a,1"), 'the answer to query a is "1"'),
        (("id,landmarks,Usage", "a,,Public"), ("id,landmarks", "a,1 1"), "no query of the solution shows"),
    ],
)
def test_bad_files_are_named(
    tmp_path: Path, solution: tuple[str, ...], submission: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        known = read_solution(write(tmp_path / "s.csv", *solution))
        score_submission(write(tmp_path / "a.csv", *submission), known)
    assert "\n" not in str(caught.value)


def test_submissions_are_compared_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    truth = {f"q{n}": [f"x{9 * n + k}" for k in range(5)] for n in range(40)}
    solution = write(
        tmp_path / "s.csv", "id,images,Usage", *(f"{q},{' '.join(own)},Public" for q, own in truth.items())
    )
    good = write(tmp_path / "good.csv", "id,images", *(f"{q},{' '.join(own)}" for q, own in truth.items()))
    mixed = (
        f"{q},{' '.join(random.permutation([*own, *(f'y{k}' for k in range(5))]))}"
        for q, own in truth.items()
    )
    bad = write(tmp_path / "bad.csv", "id,images", *mixed)
    assert run_app(["evaluate", str(good), str(bad), "--solution", str(solution), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["submissions"][str(good)]["scores"] == {"public": 1.0}
    assert found["verdict"].startswith(f"Use {good}") and found["pairs"][0]["verdict"] == "better"
    assert run_app(["evaluate", str(good), "--solution", str(solution)]) == 0
    assert "1.00000" in capsys.readouterr().out
    assert run_app(["evaluate", "--solution", str(solution)]) == 2


def test_neighbors_vote_with_their_similarity() -> None:
    images = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.8, -0.6], [0.0, 1.0]])
    queries = torch.tensor([[2.0, 0.0], [0.0, 3.0]])
    assert answers_by_neighbors(queries, images, "abbc", ["p", "q"])["p"] == ("a", 1.0)
    voted = answers_by_neighbors(queries, images, "abbc", ["p", "q"], neighbors=3, block=4)
    assert voted["p"][0] == "b" and voted["p"][1] == pytest.approx(1.6)
    assert voted["q"][0] == "c"
    with pytest.raises(UsageError, match="neighbors is 9; give 1 to 4"):
        answers_by_neighbors(queries, images, "abbc", ["p", "q"], neighbors=9)
