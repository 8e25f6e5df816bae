"""Image search of ``levelfield serve``: find similar images in one or several indexes.

Uploaded images are kept in memory only. A separate process with limits decodes them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from levelfield.core.errors import LevelfieldError, mask_password
from levelfield.data import ImageError
from levelfield.data.thumbnails import encode_thumbnail
from levelfield.reports.web._html import search_page
from levelfield.reports.web._rates import RateError, RateLimit
from levelfield.reports.web._search_models import (
    IndexFacts,
    SearchOptions,
    as_answer,
    describe_index,
    parse_options,
)
from levelfield.reports.web._uploads import (
    UploadError,
    Uploads,
    client_of,
    error_response,
    wait_response,
)
from levelfield.reports.web.search_api import IndexNotFoundError, SearchApi, failure
from levelfield.retrieval.embedders.bounded import BoundedDecoder
from levelfield.retrieval.index import RERANKINGS, SearchAnswer, Searcher
from levelfield.retrieval.index.result_page import summarize_answer

NEIGHBORS = 24
SEARCHES_PER_MINUTE = 600
AT_ONCE = 4  # answers with an image; a decoded one takes up to 120 MB, and one thread searches anyway
EXAMPLES = 6  # images of the index that the page shows before the first search
THUMBNAIL_SIDE = 240
T = TypeVar("T")


class SearchBox:
    """Image search in one or several indexes: a page, and the API of :class:`SearchApi`.

    Args:
        indexes: Index directories or database URLs. Results of several indexes are shown side by side.
        model: Model directory for indexes in a database.
        decoder: Decoder of images. Defaults to a new BoundedDecoder.
        trust: Run the code of any trunk that the indexes name.
        rate: Maximum number of searches per minute and client; 0 for no limit.
    """

    def __init__(
        self,
        indexes: Sequence[str | Path],
        *,
        model: Path | None = None,
        decoder: BoundedDecoder | None = None,
        trust: bool = False,
        rate: int = SEARCHES_PER_MINUTE,
    ) -> None:
        self._decoder = decoder or BoundedDecoder()
        self.uploads = Uploads()
        self.few_at_once = threading.BoundedSemaphore(AT_ONCE)
        self.rate = RateLimit(rate)
        self.max_bytes = self._decoder.max_bytes
        self.decode = self._decoder.decode
        # One thread owns models, catalogs and their connections; others call it.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="search")
        self._searchers = self._run(lambda: [Searcher(index, model=model, trust=trust) for index in indexes])
        self._names = [Path(mask_password(str(index))).name.partition("?")[0] for index in indexes]

    def routes(self, has_experiments: bool) -> list[Route]:
        """Return the routes of the page and of the API."""

        def page(_: Request) -> Response:
            return HTMLResponse(
                search_page(
                    self.describe(),
                    examples=self._examples(),
                    neighbors=NEIGHBORS,
                    rerankings=RERANKINGS,
                    limit=self.max_bytes,
                    has_experiments=has_experiments,
                )
            )

        return [
            Route("/search", page),
            Route("/search", self._search_upload, methods=["POST"]),
            Route("/search/words", self._search_words),
            Route("/search/{index:int}/again/{row:int}", self._search_indexed),
            Route("/search/{index:int}/image/{row:int}", self.send_image),
            *SearchApi(self).routes(),
        ]

    def close(self) -> None:
        """Stop the decoder and the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._decoder.close()

    def describe(self) -> list[IndexFacts]:
        """Return descriptions of all indexes."""
        return [self.describe_one(number) for number in range(len(self._searchers))]

    def describe_one(self, number: int) -> IndexFacts:
        """Return the description of an index, with its current number of images."""

        def describe(searcher: Searcher) -> IndexFacts:
            searcher.store.refresh()
            return describe_index(number, self._names[number], searcher)

        return self.call(number, describe)

    def check_index(self, number: int) -> None:
        """Raise IndexNotFoundError if there is no index with this number."""
        if number >= len(self._searchers):
            raise IndexNotFoundError("there is no such index; /api/v1/indexes lists them")

    def call(self, number: int, function: Callable[[Searcher], T]) -> T:
        """Return the result of a function of an index, called in the thread that owns it."""
        self.check_index(number)
        return self._run(lambda: function(self._searchers[number]))

    @staticmethod
    def search_row(searcher: Searcher, row: int, **arguments: Any) -> SearchAnswer:
        """Return the images most similar to an indexed one, by its stored vector."""
        try:
            if not searcher.store.images([row]):
                raise ImageError("the index has no such row; search again")
            vector = searcher.store.vectors(np.array([row], dtype=np.int64))[0]
        except (KeyError, ValueError, IndexError, OverflowError) as error:  # the row may be any integer
            raise ImageError("the index has no such row; search again") from error
        return searcher.search_vector(torch.from_numpy(np.array(vector)), **arguments)

    async def _search_upload(self, request: Request) -> Response:
        try:
            self.rate.spend(client_of(request))
            async with self.uploads.read(request, self.max_bytes) as body:
                parameters = request.query_params.multi_items()
                return await run_in_threadpool(self._answer_upload, body, parameters)
        except UploadError as error:
            return error_response(f"the image is too large: {error}", error.status)
        except RateError as error:
            return wait_response(error)

    def _answer_upload(self, body: bytes, parameters: list[tuple[str, str]]) -> Response:
        def search_all(options: SearchOptions) -> list[SearchAnswer]:
            pixels = self.decode(body)
            return [
                self.call(number, lambda each: each.search(pixels, **options.arguments()))
                for number in range(len(self._searchers))
            ]

        return self._answer(parameters, search_all)

    def _search_words(self, request: Request) -> Response:
        """Search with words in all indexes whose model has a text tower."""
        given = request.query_params.multi_items()
        text = next((value for name, value in given if name == "text"), "")

        def search_all(options: SearchOptions) -> list[SearchAnswer]:
            return [
                self.call(number, lambda each: each.search_text(text, **options.arguments()))
                for number in range(len(self._searchers))
            ]

        try:
            self.rate.spend(client_of(request))
        except RateError as error:
            return wait_response(error)
        return self._answer([each for each in given if each[0] != "text"], search_all)

    def _search_indexed(self, request: Request) -> Response:
        """Search with an indexed image: by its vector in its index, by its file in others."""
        chosen, row = int(request.path_params["index"]), int(request.path_params["row"])

        try:
            self.rate.spend(client_of(request))
        except RateError as error:
            return wait_response(error)

        def search_all(options: SearchOptions) -> list[SearchAnswer]:
            self.check_index(chosen)
            pixels = self.decode(self._read_image(request)) if len(self._searchers) > 1 else None
            arguments = options.arguments()
            return [
                self.call(number, lambda each: self.search_row(each, row, **arguments))
                if number == chosen or pixels is None
                else self.call(number, lambda each: each.search(pixels, **arguments))
                for number in range(len(self._searchers))
            ]

        return self._answer(request.query_params.multi_items(), search_all)

    def _answer(
        self,
        parameters: list[tuple[str, str]],
        search_all: Callable[[SearchOptions], list[SearchAnswer]],
    ) -> Response:
        try:
            with self.few_at_once:
                answers = search_all(parse_options(parameters, k=NEIGHBORS))
            roots = [self.call(number, lambda each: each.store.root()) for number in range(len(answers))]
        except LevelfieldError as error:
            return failure(error)
        shown = [
            {
                **as_answer(number, answer, root).model_dump(),
                "index": number,
                "title": self._names[number],
                "verdict": summarize_answer(answer),
            }
            for number, (answer, root) in enumerate(zip(answers, roots, strict=True))
        ]
        return JSONResponse({"answers": shown})

    def send_image(self, request: Request) -> Response:
        """Return a thumbnail of an indexed image, never the file itself."""
        with self.few_at_once:
            try:
                pixels = self.decode(self._read_image(request))
            except LevelfieldError as error:
                return error_response(str(error), 404)
            return Response(encode_thumbnail(pixels, side=THUMBNAIL_SIDE), media_type="image/webp")

    def _read_image(self, request: Request) -> bytes:
        """Return the content of an indexed file; a URL cannot reach other files."""
        number, row = int(request.path_params["index"]), int(request.path_params["row"])
        if number >= len(self._searchers):
            raise ImageError("there is no such index; reload the page")
        try:
            (item,) = self.call(number, lambda each: each.store.images([row]))
            file = Path(item.name)
            if not file.is_file():  # a pipe or a device may never end
                raise ImageError("the image file is missing; index it again")
            if file.stat().st_size > self.max_bytes:
                raise ImageError(f"the image is larger than {self.max_bytes:,} bytes")
            return file.read_bytes()
        except (OSError, KeyError, ValueError, OverflowError) as error:  # the row may be any integer
            raise ImageError("the image file is missing; index it again") from error

    def _examples(self) -> list[int]:
        """Return rows of a few images, spread over the first index, whose files are there."""

        def find(searcher: Searcher) -> list[int]:
            size = len(searcher.store)
            rows = np.unique(np.linspace(0, max(size - 1, 0), 4 * EXAMPLES).astype(int)).tolist()
            return [image.row for image in searcher.store.images(rows) if Path(image.name).is_file()]

        rows = self.call(0, find)
        step = max(1, len(rows) // EXAMPLES)
        return rows[::step][:EXAMPLES]

    def _run(self, function: Callable[[], T]) -> T:
        return self._thread.submit(function).result()
