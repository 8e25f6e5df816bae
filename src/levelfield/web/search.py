"""The search box: a picture in, what is most like it in one or several indexes out.

Pictures that are sent are kept in memory only, and decoded in a process of their own with limits.
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

from levelfield.data import ImageError
from levelfield.data.thumbnails import thumbnail
from levelfield.embedders.bounded import BoundedDecoder
from levelfield.errors import LevelfieldError
from levelfield.index import Answer, Searcher
from levelfield.index.page import verdict
from levelfield.web._views import search_page

K = 24
SIDE = 240
Found = TypeVar("Found")


class SearchBox:
    """Searches indexes with pictures.

    Args:
        indexes: Folders of indexes, or addresses of databases; answers of several stand side by side.
        model: The model folder of indexes in a database.
        decoder: Who decodes pictures.
    """

    def __init__(
        self,
        indexes: Sequence[str | Path],
        *,
        model: Path | None = None,
        decoder: BoundedDecoder | None = None,
    ) -> None:
        self._decoder = decoder or BoundedDecoder()
        # One thread owns models, catalogues and their connections; others ask it.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="search")
        self._searchers = self._ask(lambda: [Searcher(index, model=model) for index in indexes])
        names = [Path(str(index)).name for index in indexes]
        cards = [searcher.embedder.card for searcher in self._searchers]
        self.titles = [f"{card.method} ({name})" for card, name in zip(cards, names, strict=True)]

    def routes(self, has_experiments: bool) -> list[Route]:
        """What the server answers."""

        def page(_: Request) -> Response:
            sizes = self._ask(lambda: [len(searcher.store) for searcher in self._searchers])
            found = list(zip(self.titles, sizes, strict=True))
            return HTMLResponse(search_page(found, self._decoder.max_bytes, has_experiments))

        return [
            Route("/search", page),
            Route("/search", self._uploaded, methods=["POST"]),
            Route("/search/{index:int}/again/{row:int}", self._again),
            Route("/search/{index:int}/picture/{row:int}", self._picture),
        ]

    def close(self) -> None:
        """End the decoder and the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        self._decoder.close()

    async def _uploaded(self, request: Request) -> Response:
        limit = self._decoder.max_bytes
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > limit:
                return _refused(f"the picture has more than {limit:,} bytes; send a smaller one", 413)
        return await run_in_threadpool(self._answer, lambda: bytes(data))

    def _again(self, request: Request) -> Response:
        return self._answer(lambda: self._content(request))

    def _answer(self, content: Callable[[], bytes]) -> Response:
        try:
            pixels = self._decoder.decode(content())
            answers = self._ask(lambda: [searcher.search(pixels, k=K) for searcher in self._searchers])
        except LevelfieldError as error:
            return _refused(str(error), 422)
        shown = zip(self.titles, answers, strict=True)
        return JSONResponse({"answers": [_as_json(n, title, a) for n, (title, a) in enumerate(shown)]})

    def _picture(self, request: Request) -> Response:
        """A small copy of a picture of the index; never the file itself."""
        try:
            pixels = self._decoder.decode(self._content(request))
        except LevelfieldError as error:
            return _refused(str(error), 404)
        return Response(thumbnail(pixels, side=SIDE), media_type="image/webp")

    def _content(self, request: Request) -> bytes:
        """The file of a picture that the index names; no address can name another."""
        number, row = int(request.path_params["index"]), int(request.path_params["row"])
        if number >= len(self._searchers):
            raise ImageError("there is no such index")
        try:
            (item,) = self._ask(lambda: self._searchers[number].store.items([row]))
            file = Path(item.name)
            if file.stat().st_size > self._decoder.max_bytes:
                raise ImageError(f"the picture is larger than {self._decoder.max_bytes:,} bytes")
            return file.read_bytes()
        except (OSError, KeyError, ValueError, OverflowError) as error:  # a number may be any number
            raise ImageError("the picture is not where the index saw it; index it again") from error

    def _ask(self, work: Callable[[], Found]) -> Found:
        return self._thread.submit(work).result()


def _as_json(number: int, title: str, answer: Answer) -> dict[str, Any]:
    found = answer.as_dict()
    return {
        "index": number,
        "title": title,
        "verdict": verdict(answer),
        "notes": found["notes"],
        "neighbours": found["neighbours"],
    }


def _refused(message: str, status: int) -> Response:
    return JSONResponse({"error": message}, status_code=status)
