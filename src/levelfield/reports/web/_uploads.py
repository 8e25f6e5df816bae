"""Bodies of requests, read into memory with limits for one and for all together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from levelfield.reports.web._rates import RateError

MAX_TOTAL = 400_000_000  # bytes of all bodies at once


class UploadError(Exception):
    """Body that exceeds a limit; ``status`` is the status of the answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Uploads:
    """Reader of bodies; it counts the bytes that all current requests hold."""

    def __init__(self, *, total: int = MAX_TOTAL) -> None:
        self._total, self._held = total, 0

    @asynccontextmanager
    async def read(self, request: Request, limit: int) -> AsyncIterator[bytes]:
        """Yield the body of a request; it counts until the block ends.

        Raises:
            UploadError: The body has more than ``limit`` bytes, or all bodies together have too many.
        """
        data = bytearray()
        try:
            async for chunk in request.stream():
                if len(data) + len(chunk) > limit:
                    raise UploadError(f"the body has more than {limit:,} bytes; send less", 413)
                if self._held + len(chunk) > self._total:
                    raise UploadError("the server holds too many uploads; try again in a second", 503)
                data += chunk
                self._held += len(chunk)
            yield bytes(data)
        finally:
            self._held -= len(data)


def client_of(request: Request) -> str:
    """Return the address of the client; behind a proxy, that of the proxy."""
    return "" if request.client is None else request.client.host


def wait_response(error: RateError) -> Response:
    """Return the answer to a client that searches too often."""
    return JSONResponse({"error": str(error)}, 429, {"retry-after": str(error.seconds)})


def error_response(message: str, status: int) -> Response:
    """Return an error as JSON."""
    headers = {"retry-after": "1"} if status == 503 else None
    return JSONResponse({"error": message}, status_code=status, headers=headers)
