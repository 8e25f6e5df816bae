"""Requests and answers of the search API, as pydantic models: they check requests and describe the API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from levelfield.core.errors import UsageError
from levelfield.retrieval.index import SearchAnswer, Searcher

MAX_NEIGHBORS = 1000
MAX_QUERIES = 64
MAX_SIZE = 65_536  # numbers of a vector
# Marks of JSON in a body, which are counted before it is parsed: a parsed value takes up to 900 bytes.
MAX_MARKS = {b"[": 20_000, b"{": 20_000, b":": 20_000, b",": MAX_QUERIES * MAX_SIZE}
MAX_BASE64 = 40_000_000  # characters of an image; the decoder has its own limit in bytes


class SearchOptions(BaseModel):
    """Options of a search, the same for all of its queries."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    index: Annotated[
        int, Field(ge=0, le=1000, description="Number of the index, as /api/v1/indexes lists.")
    ] = 0
    k: Annotated[int, Field(ge=1, le=MAX_NEIGHBORS, description="Number of neighbors.")] = 20
    filters: Annotated[
        list[Annotated[str, Field(max_length=1000)]],
        Field(
            max_length=50, description="Conditions that neighbors must meet, such as label=cat or date>=2020."
        ),
    ] = []
    min_similarity: Annotated[
        float | None, Field(ge=-1, le=1, description="Neighbors below this similarity are left out.")
    ] = None
    rerank: Annotated[
        Literal["none", "aqe", "alpha_qe", "k_reciprocal"], Field(description="Order of the neighbors.")
    ] = "none"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of :meth:`Searcher.search`."""
        return self.model_dump(include={"k", "filters", "min_similarity", "rerank"})


class SearchQuery(BaseModel):
    """Query: exactly one of the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: Annotated[
        str | None, Field(max_length=MAX_BASE64, description="Content of an image file, in base64.")
    ] = None
    vector: Annotated[
        list[Annotated[float, Field(allow_inf_nan=False)]] | None,
        Field(min_length=1, max_length=MAX_SIZE, description="Unit vector of the model of the index."),
    ] = None
    row: Annotated[int | None, Field(ge=0, le=2**62, description="Row of an image in the index.")] = None
    text: Annotated[
        str | None,
        Field(min_length=1, max_length=10_000, description="Words, if the model has a text tower."),
    ] = None

    @model_validator(mode="after")
    def _check_one(self) -> SearchQuery:
        if len(self.model_fields_set) != 1 or all(value is None for value in vars(self).values()):
            raise ValueError("give exactly one of image, vector, row and text")
        return self


class SearchRequest(SearchOptions):
    """Several queries with the same options."""

    queries: Annotated[list[SearchQuery], Field(min_length=1, max_length=MAX_QUERIES)]


class FoundImage(BaseModel):
    """Neighbor of a query."""

    row: int
    name: Annotated[str, Field(description="Name of the file, without the folder that holds all images.")]
    label: str
    similarity: Annotated[float, Field(description="Cosine similarity to the query.")]
    is_match: Annotated[bool | None, Field(description="Null if the model has no match threshold.")]
    metadata: dict[str, str]
    image: Annotated[str, Field(description="Address of a thumbnail.")]


class QueryAnswer(BaseModel):
    """Answer to one query."""

    neighbors: list[FoundImage]
    found: Annotated[bool | None, Field(description="False: nothing like it here. Null: no match threshold.")]
    threshold: Annotated[float | None, Field(description="Similarity that a match reaches.")]
    notes: list[str]


class SearchResponse(BaseModel):
    """Answers in the order of the queries."""

    index: int
    model: str
    answers: list[QueryAnswer]


class IndexFacts(BaseModel):
    """Description of an index."""

    index: int
    name: str
    model: str
    identity: Annotated[str, Field(description="Digest of the model; vectors of others cannot be searched.")]
    score: Annotated[str, Field(description="First test score of the model; empty if it has none.")]
    size: Annotated[int, Field(description="Size of a vector.")]
    images: int
    columns: Annotated[list[str], Field(description="Columns that filters can name.")]
    threshold: float | None
    text: Annotated[bool, Field(description="True if the model has a text tower, for queries with words.")]


class IndexList(BaseModel):
    """All indexes of the server."""

    indexes: list[IndexFacts]


class Health(BaseModel):
    """State of the server."""

    status: Literal["ok"]


class Failure(BaseModel):
    """Reason why a request was not answered."""

    error: str


def parse_request(data: bytes) -> SearchRequest:
    """Return the request in a JSON body; raise UsageError with one line if it is not one.

    Example:
        >>> parse_request(b'{"queries": [{"row": 3}]}').queries[0].row
        3
    """
    if any(data.count(mark) > count for mark, count in MAX_MARKS.items()):
        raise UsageError(
            f"the body has more values than {MAX_QUERIES} queries; send fewer, see the description of the API"
        )
    try:
        return SearchRequest.model_validate_json(data)
    except ValidationError as error:
        raise UsageError(_one_line(error)) from error


def parse_options(parameters: list[tuple[str, str]], **defaults: Any) -> SearchOptions:
    """Return the options in the parameters of an address.

    Example:
        >>> parse_options([("k", "5"), ("filter", "label=cat"), ("filter", "date>=2020")]).filters
        ['label=cat', 'date>=2020']
    """
    given: dict[str, Any] = {**defaults}
    for name, value in parameters:
        if name == "filter":
            given.setdefault("filters", []).append(value)
        elif name in given and name not in defaults:
            raise UsageError(f'the parameter "{name[:80]}" is given twice; give it once')
        else:
            given[name] = value
            defaults.pop(name, None)
    try:
        return SearchOptions.model_validate(given)
    except ValidationError as error:
        raise UsageError(_one_line(error)) from error


def _one_line(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])[:80]
    message = first["msg"].removeprefix("Value error, ")
    return f"{where + ': ' if where else ''}{message[:200]}; see the description of the API"


def shown_name(name: str, root: str) -> str:
    """Return the name of an image without the folder that holds all images of its index.

    Example:
        >>> shown_name("/home/me/photos/rome/1.jpg", "/home/me/photos"), shown_name("birds:7", "")
        ('rome/1.jpg', 'birds:7')
    """
    start = root.rstrip("/") + "/"
    if name.startswith(start):
        return name[len(start) :]
    return name.rsplit("/", 1)[-1] if name.startswith("/") else name


def as_answer(number: int, answer: SearchAnswer, root: str) -> QueryAnswer:
    """Return an answer without paths of the server."""
    neighbors = [
        FoundImage(
            row=each.row,
            name=shown_name(each.name, root),
            label=each.label,
            similarity=each.similarity,
            is_match=each.is_match,
            metadata=dict(each.metadata),
            image=f"/api/v1/indexes/{number}/images/{each.row}",
        )
        for each in answer.neighbors
    ]
    threshold = None if answer.threshold is None else answer.threshold.similarity
    return QueryAnswer(neighbors=neighbors, found=answer.found, threshold=threshold, notes=list(answer.notes))


def describe_index(number: int, name: str, searcher: Searcher) -> IndexFacts:
    """Return the description of an index."""
    card, store = searcher.embedder.card, searcher.store
    score = ""
    if card.scores:
        first = card.scores[0]
        interval = (
            "" if first.low is None or first.high is None else f" ({first.low:.3f} to {first.high:.3f})"
        )
        score = f"{first.metric} {first.value:.3f}{interval} on {first.measured_on}"
    return IndexFacts(
        index=number,
        name=name,
        model=card.name or card.method,
        identity=card.identity,
        score=score,
        size=card.size,
        images=len(store),
        columns=["label", "folder", *store.columns()],
        threshold=None if store.model.threshold is None else store.model.threshold.similarity,
        text=card.text is not None,
    )
