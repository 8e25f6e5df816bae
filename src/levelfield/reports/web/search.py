"""Image search of ``levelfield serve``: find similar images in one or several indexes.

Uploaded images are kept in memory only. A separate process with limits decodes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from levelfield.core.errors import LevelfieldError, mask_password
from levelfield.data import ImageError
from levelfield.data.thumbnails import encode_thumbnail
from levelfield.reports.web._html import search_page
from levelfield.retrieval.embedders.bounded import BoundedDecoder
from levelfield.retrieval.index import SearchAnswer, Searcher
from levelfield.retrieval.index.result_page import summarize_answer

NEIGHBORS = 24
THUMBNAIL_SIDE = 240
T = TypeVar("T")


class SearchBox:
    """Image search in one or several indexes.

    Args:
        indexes: Index directories or database URLs. Results of several indexes are shown side by side.
        model: Model directory for indexes in a database.
        decoder: Decoder of images. Defaults to a new BoundedDecoder.
        trust: Run the code of any trunk that the indexes name.
    """

    def __init__(
        self,
        indexes: Sequence[str | Path],
        *,
        model: Path | None = None,
        decoder: BoundedDecoder | None = None,
        trust: bool = False,
    ) -> None:
        self._decoder = decoder or BoundedDecoder()
        # One thread owns models, catalogs and their connections; others call it.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="search")
        self._searchers = self._call(lambda: [Searcher(index, model=model, trust=trust) for index in indexes])
        names = [Path(mask_password(str(index))).name for index in indexes]
        cards = [searcher.embedder.card for searcher in self._searchers]
        self.titles = [f"{card.method} ({name})" for card, name in zip(cards, names, strict=True)]

    def routes(self, has_experiments: bool) -> list[Route]:
        """Return the routes of the image search."""

        def page(_: Request) -> Response:
            sizes = self._call(lambda: [len(searcher.store) for searcher in self._searchers])
            found = list(zip(self.titles, sizes, strict=True))
            return HTMLResponse(search_page(found, self._decoder.max_bytes, has_experiments))

        return [
            Route("/search", page),
            Route("/search", self._search_upload, methods=["POST"]),
            Route("/search/{index:int}/again/{row:int}", self._search_indexed),
            Route("/search/{index:int}/image/{row:int}", self._send_image),
        ]

    def close(self) -> None:
        """Stop the decoder and the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._decoder.close()

    async def _search_upload(self, request: Request) -> Response:
        limit = self._decoder.max_bytes
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > limit:
                return _error_response(f"the image has more than {limit:,} bytes; send a smaller one", 413)
        return await run_in_threadpool(self._answer, lambda: bytes(data))

    def _search_indexed(self, request: Request) -> Response:
        return self._answer(lambda: self._read_image(request))

    def _answer(self, content: Callable[[], bytes]) -> Response:
        try:
            pixels = self._decoder.decode(content())
            answers = self._call(
                lambda: [searcher.search(pixels, k=NEIGHBORS) for searcher in self._searchers]
            )
        except LevelfieldError as error:
            return _error_response(str(error), 422)
        shown = zip(self.titles, answers, strict=True)
        return JSONResponse({"answers": [_as_json(n, title, a) for n, (title, a) in enumerate(shown)]})

    def _send_image(self, request: Request) -> Response:
        """Return a thumbnail of an indexed image, never the file itself."""
        try:
            pixels = self._decoder.decode(self._read_image(request))
        except LevelfieldError as error:
            return _error_response(str(error), 404)
        return Response(encode_thumbnail(pixels, side=THUMBNAIL_SIDE), media_type="image/webp")

    def _read_image(self, request: Request) -> bytes:
        """Return the content of an indexed file; a URL cannot reach other files."""
        number, row = int(request.path_params["index"]), int(request.path_params["row"])
        if number >= len(self._searchers):
            raise ImageError("there is no such index; reload the page")
        try:
            (item,) = self._call(lambda: self._searchers[number].store.images([row]))
            file = Path(item.name)
            if file.stat().st_size > self._decoder.max_bytes:
                raise ImageError(f"the image is larger than {self._decoder.max_bytes:,} bytes")
            return file.read_bytes()
        except (OSError, KeyError, ValueError, OverflowError) as error:  # the row may be any integer
            raise ImageError("the image file is missing; index it again") from error

    def _call(self, function: Callable[[], T]) -> T:
        return self._thread.submit(function).result()


def _as_json(number: int, title: str, answer: SearchAnswer) -> dict[str, Any]:
    found = answer.as_dict()
    return {
        "index": number,
        "title": title,
        "verdict": summarize_answer(answer),
        "notes": found["notes"],
        "neighbors": found["neighbors"],
    }


def _error_response(message: str, status: int) -> Response:
    return JSONResponse({"error": message}, status_code=status)
