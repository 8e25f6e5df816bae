"""The Google Landmarks challenge: its solution files, its submissions, and its two scores."""

from __future__ import annotations

import csv
import io
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import UsageError
from levelfield.metrics._rankings import score_rankings
from levelfield.metrics.recognition import global_average_precision

Track = Literal["retrieval", "recognition"]
PARTS = ("public", "private")
RETRIEVAL_METRIC = "map_at_100"
_COLUMNS: dict[str, Track] = {"images": "retrieval", "landmarks": "recognition"}


@dataclass(frozen=True)
class LandmarkSolution:
    """Solution file of a track, without the queries that it ignores.

    Attributes:
        track: "retrieval" or "recognition".
        parts: For "public" and "private" the queries with their index images, or their landmarks.
        ignored: Queries that are not scored.
    """

    track: Track
    parts: Mapping[str, Mapping[str, tuple[str, ...]]]
    ignored: frozenset[str] = field(default_factory=frozenset)

    @property
    def queries(self) -> dict[str, tuple[str, ...]]:
        """Queries of both parts."""
        return {query: wanted for part in PARTS for query, wanted in self.parts[part].items()}


@dataclass(frozen=True, eq=False)
class SubmissionScores:
    """Scores of a submission.

    Attributes:
        metric: "mAP@100" of the retrieval track, or "GAP" of the recognition track.
        scores: Score of the public and of the private queries; a part without queries is missing.
        per_query: Average precision of each query of both parts, for the retrieval track.
    """

    metric: str
    scores: Mapping[str, float]
    per_query: npt.NDArray[np.float64] | None = None


def read_solution(file: str | Path) -> LandmarkSolution:
    """Return the solution in ``retrieval_solution_v2.1.csv`` or ``recognition_solution_v2.1.csv``.

    The columns are id, images (retrieval) or landmarks (recognition), and Usage: Public, Private or Ignored.
    """
    header, rows = _read(Path(file))
    track = next((own for column, own in _COLUMNS.items() if column in header), None)
    if track is None or "id" not in header or "Usage" not in header:
        raise UsageError(
            f"{file} has the columns {', '.join(header) or 'none'}; a solution file has id, images or "
            "landmarks, and Usage"
        )
    wanted = "images" if track == "retrieval" else "landmarks"
    parts: dict[str, dict[str, tuple[str, ...]]] = {part: {} for part in PARTS}
    ignored = set()
    for line, row in rows:
        query, usage = row["id"], row["Usage"].lower()
        if usage == "ignored":
            ignored.add(query)
        elif usage not in parts:
            raise UsageError(
                f'{file}, line {line}: Usage is "{row["Usage"]}"; it is Public, Private or Ignored'
            )
        elif any(query in part for part in parts.values()):
            raise UsageError(f"{file}, line {line}: query {query} is listed twice; fetch the file again")
        else:
            parts[usage][query] = tuple(dict.fromkeys(row[wanted].split()))
            if track == "retrieval" and not parts[usage][query]:
                raise UsageError(f"{file}, line {line}: query {query} lists no image; fetch the file again")
    if not any(parts.values()):
        raise UsageError(f"{file} has no Public or Private query; fetch the file again")
    return LandmarkSolution(track, parts, frozenset(ignored))


def score_submission(file: str | Path, solution: LandmarkSolution) -> SubmissionScores:
    """Return the official scores of a submission: mAP@100 for retrieval, GAP for recognition.

    A submission is a CSV file with the columns id and images (up to 100 index images, best first), or id and
    landmarks (one landmark and its confidence). Queries that it leaves out count as not answered.
    """
    header, rows = _read(Path(file))
    column = "images" if solution.track == "retrieval" else "landmarks"
    if "id" not in header or column not in header:
        raise UsageError(
            f"{file} has the columns {', '.join(header) or 'none'}; a submission to the {solution.track} "
            f"track has id and {column}"
        )
    known = solution.queries
    answers: dict[str, list[str]] = {}
    for line, row in rows:
        query = row["id"]
        if query in answers:
            raise UsageError(f"{file}, line {line}: query {query} is answered twice; remove one line")
        if query in known:
            answers[query] = row[column].split()
        elif query not in solution.ignored:
            raise UsageError(f'{file}, line {line}: "{query}" is no query of the solution; remove the line')
    if solution.track == "retrieval":
        return _score_retrieval(answers, solution)
    return _score_recognition(answers, solution, file)


def _score_retrieval(answers: Mapping[str, list[str]], solution: LandmarkSolution) -> SubmissionScores:
    queries = solution.queries
    rankings = [_ranked(answers.get(query, [])) for query in queries]
    values = score_rankings(rankings, [list(each) for each in queries.values()], [RETRIEVAL_METRIC])
    found = values[RETRIEVAL_METRIC]
    at = {query: number for number, query in enumerate(queries)}
    scores = {
        part: float(np.mean([found[at[query]] for query in own]))
        for part, own in solution.parts.items()
        if own
    }
    return SubmissionScores("mAP@100", scores, found)


def _ranked(images: list[str]) -> list[Hashable]:
    """Return a ranking in which repeated images hold their place without counting again."""
    seen: set[str] = set()
    ranked: list[Hashable] = []
    for place, image in enumerate(images):
        ranked.append((place,) if image in seen else image)
        seen.add(image)
    return ranked


def _score_recognition(
    answers: Mapping[str, list[str]], solution: LandmarkSolution, file: str | Path
) -> SubmissionScores:
    given: dict[str, tuple[str, float]] = {}
    for query, words in answers.items():
        if not words:
            continue
        try:
            landmark, confidence = words
            given[query] = (landmark, float(confidence))
        except ValueError as error:
            raise UsageError(
                f'{file}: the answer to query {query} is "{" ".join(words)[:60]}"; give one landmark and its '
                "confidence"
            ) from error
    scores = {}
    for part, own in solution.parts.items():
        if any(own.values()):
            asked = {query: answer for query, answer in given.items() if query in own}
            scores[part] = global_average_precision(asked, own)
    if not scores:
        raise UsageError("no query of the solution shows a landmark; fetch the solution file again")
    return SubmissionScores("GAP", scores)


def _read(file: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Return the columns of a CSV file, and its lines with their numbers."""
    try:
        if file.exists() and not file.is_file() and not file.is_dir():
            raise UsageError(f"{file} is a pipe or a device; give a regular file")
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 text ({error}); save it as CSV") from error
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}; check the path") from error
    try:
        reader = csv.DictReader(io.StringIO(text), restkey="", restval="")
        header = [column or "" for column in reader.fieldnames or []]
        rows = [
            (reader.line_num, {key: value.strip() for key, value in row.items() if key}) for row in reader
        ]
    except (csv.Error, AttributeError) as error:
        raise UsageError(f"{file} is not a CSV file ({error}); save it as one") from error
    return header, rows
