"""HTTP API of the image search: JSON in, JSON out, described by OpenAPI.

``/api/v1/search`` takes an image as its body, or JSON with one or several queries. The limits are those of
the page, and nothing that was sent is stored.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from levelfield.core.errors import LevelfieldError, UsageError
from levelfield.data import ImageError
from levelfield.reports.web._rates import RateError
from levelfield.reports.web._search_models import (
    Failure,
    Health,
    IndexList,
    SearchOptions,
    SearchQuery,
    SearchRequest,
    SearchResponse,
    as_answer,
    parse_options,
    parse_request,
)
from levelfield.reports.web._uploads import UploadError, client_of, error_response, wait_response
from levelfield.reports.web.server import HEALTH
from levelfield.retrieval.index import SearchAnswer, Searcher

if TYPE_CHECKING:
    from levelfield.reports.web.search import SearchBox

PREFIX = "/api/v1"
JSON_BYTES = 60_000_000  # of a JSON body
IMAGE_TYPES = ("image/", "application/octet-stream")
MODELS: tuple[type[BaseModel], ...] = (
    SearchOptions,
    SearchRequest,
    SearchResponse,
    IndexList,
    Health,
    Failure,
)


class SearchApi:
    """Endpoints of the API. The search box owns models, indexes and the decoder."""

    def __init__(self, box: SearchBox) -> None:
        self._box = box

    def routes(self) -> list[Route]:
        """Return the routes of the API."""
        return [
            Route(HEALTH, self._health),
            Route(f"{PREFIX}/openapi.json", lambda _: JSONResponse(describe_api())),
            Route(f"{PREFIX}/indexes", self._indexes),
            Route(f"{PREFIX}/indexes/{{index:int}}/images/{{row:int}}", self._box.send_image),
            Route(f"{PREFIX}/search", self._search, methods=["POST"]),
        ]

    def _health(self, _: Request) -> Response:
        return JSONResponse(Health(status="ok").model_dump())

    def _indexes(self, _: Request) -> Response:
        return self._guarded(lambda: IndexList(indexes=self._box.describe()))

    async def _search(self, request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_json = kind == "application/json"
        if not is_json and not kind.startswith(IMAGE_TYPES):
            return error_response(
                "the content type is neither application/json nor image/*; "
                "set it, as in curl -H 'Content-Type: image/jpeg'",
                415,
            )
        limit = JSON_BYTES if is_json else self._box.max_bytes
        parameters, client = request.query_params.multi_items(), client_of(request)
        try:
            self._box.rate.spend(client)
            async with self._box.uploads.read(request, limit) as body:
                answer = self._answer_json if is_json else self._answer_image
                return await run_in_threadpool(self._guarded, lambda: answer(body, parameters, client))
        except UploadError as error:
            return error_response(str(error), error.status)
        except RateError as error:
            return wait_response(error)

    def _answer_image(self, body: bytes, parameters: list[tuple[str, str]], _: str) -> SearchResponse:
        options = parse_options(parameters)
        self._box.check_index(options.index)
        pixels = self._box.decode(body)
        return self._respond(options, [lambda searcher: searcher.search(pixels, **options.arguments())])

    def _answer_json(self, body: bytes, parameters: list[tuple[str, str]], client: str) -> SearchResponse:
        if parameters:
            raise UsageError("a JSON request has its options in the body; leave out those of the address")
        request = parse_request(body)
        self._box.check_index(request.index)
        self._box.rate.spend(client, len(request.queries) - 1)  # the first one is counted already
        return self._respond(request, self._prepared(request))

    def _prepared(self, request: SearchRequest) -> Iterator[Callable[[Searcher], SearchAnswer]]:
        """Yield the search of each query; one image is decoded at a time, since 64 may take gigabytes."""
        for number, query in enumerate(request.queries):
            try:
                yield self._prepare(query, request)
            except LevelfieldError as error:
                raise UsageError(f"query {number}: {error}") from error

    def _prepare(self, query: SearchQuery, options: SearchOptions) -> Callable[[Searcher], SearchAnswer]:
        """Return the search of a query; images are decoded here, outside the thread of the search."""
        arguments = options.arguments()
        if query.vector is not None:
            vector = torch.tensor(query.vector, dtype=torch.float32)
            return lambda searcher: searcher.search_vector(vector, **arguments)
        if query.row is not None:
            row = query.row
            return lambda searcher: self._box.search_row(searcher, row, **arguments)
        if query.text is not None:
            text = query.text
            return lambda searcher: searcher.search_text(text, **arguments)
        try:
            content = base64.b64decode((query.image or "").encode(), validate=True)
        except (binascii.Error, ValueError) as error:
            raise UsageError("the image is not base64; encode the content of the file") from error
        pixels = self._box.decode(content)
        return lambda searcher: searcher.search(pixels, **arguments)

    def _respond(
        self, options: SearchOptions, searches: Iterable[Callable[[Searcher], SearchAnswer]]
    ) -> SearchResponse:
        answers = []
        for search in searches:  # one call each, so that a long request does not keep others waiting

            def run(
                searcher: Searcher, search: Callable[[Searcher], SearchAnswer] = search
            ) -> tuple[SearchAnswer, str]:
                return search(searcher), searcher.store.root()

            answer, root = self._box.call(options.index, run)
            answers.append(as_answer(options.index, answer, root))
        return SearchResponse(
            index=options.index, model=self._box.describe_one(options.index).model, answers=answers
        )

    def _guarded(self, answer: Callable[[], BaseModel]) -> Response:
        """Return the answer as JSON, or the error; few are computed at once, which bounds the memory."""
        with self._box.few_at_once:
            try:
                return Response(answer().model_dump_json(), media_type="application/json")
            except LevelfieldError as error:
                return failure(error)


def failure(error: LevelfieldError) -> Response:
    """Return an error without paths of the server."""
    if isinstance(error, IndexNotFoundError):
        return error_response(str(error), 404)
    if isinstance(error, UsageError | ImageError):
        return error_response(str(error), 422)
    return error_response("the index cannot be searched now; tell the owner of the server", 503)


class IndexNotFoundError(UsageError):
    """Number of an index that the server does not have."""


@cache
def describe_api() -> dict[str, Any]:
    """Return the OpenAPI description of the API."""
    _, schemas = models_json_schema(
        [(model, "validation") for model in MODELS], ref_template="#/components/schemas/{model}"
    )
    definitions = schemas["$defs"]
    options = definitions.pop("SearchOptions")["properties"]
    parameters = [
        {
            "name": "filter" if name == "filters" else name,
            "in": "query",
            "schema": schema,
            "description": f"{schema.get('description', '')} Only for an image as body.",
        }
        for name, schema in options.items()
    ]
    search = _operation(
        "Find similar images. The body is an image, or JSON with up to 64 queries.",
        SearchResponse,
        (401, 404, 413, 415, 422, 429, 503),
    )
    search["parameters"] = parameters
    search["requestBody"] = {
        "required": True,
        "content": {
            "application/json": {"schema": _reference(SearchRequest)},
            "image/*": {"schema": {"type": "string", "format": "binary"}},
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
    thumbnail = _operation("Return a thumbnail of an indexed image.", None, (401, 404))
    thumbnail["parameters"] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "integer", "minimum": 0}}
        for name in ("index", "row")
    ]
    health = {**_operation("Say that the server runs. Needs no token.", Health, ()), "security": []}
    return {
        "openapi": "3.1.0",
        "info": {"title": "levelfield image search", "version": "1"},
        "paths": {
            HEALTH: {"get": health},
            f"{PREFIX}/openapi.json": {"get": _operation("Return this description.", None, (401,))},
            f"{PREFIX}/indexes": {"get": _operation("List the indexes.", IndexList, (401, 503))},
            f"{PREFIX}/indexes/{{index}}/images/{{row}}": {"get": thumbnail},
            f"{PREFIX}/search": {"post": search},
        },
        "components": {
            "schemas": definitions,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _operation(summary: str, answer: type[BaseModel] | None, errors: tuple[int, ...]) -> dict[str, Any]:
    done: dict[str, Any] = {"description": "The answer."}
    if answer is not None:
        done["content"] = {"application/json": {"schema": _reference(answer)}}
    failed = {
        str(status): {
            "description": "One line that says why.",
            "content": {"application/json": {"schema": _reference(Failure)}},
        }
        for status in errors
    }
    return {"summary": summary, "responses": {"200": done, **failed}}
