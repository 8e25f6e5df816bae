"""Limits of the web server for slow, half-open and too many connections.

A browser sends a request and reads the answer at once. A connection that does not is closed after some
seconds, so that it cannot keep others out.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0  # for all headers of a request, from the start of the connection or of the request
BODY_SECONDS = 60.0  # for the body of a request, an image of some MB
WRITE_SECONDS = 60.0  # without any progress in sending an answer
MAX_CONNECTIONS = 256  # one browser has six
MAX_HEADER_BYTES = 16 * 1024


def server_config(app: Any) -> uvicorn.Config:
    """Return the settings of the server, with all limits."""
    return uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=5,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
    )


class TimedProtocol(H11Protocol):
    """HTTP/1.1 with time limits for receiving a request and for sending the answer."""

    _receiving: asyncio.TimerHandle | None = None
    _sending: asyncio.TimerHandle | None = None
    _has_headers = False

    # uvicorn annotates it as narrower
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, and wait for its first request for a limited time."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self._limit_receiving(HEADER_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request; the next request on a connection has its own time."""
        if self._receiving is None and (self.cycle is None or self.cycle.response_complete):
            self._limit_receiving(HEADER_SECONDS)
        super().data_received(data)

    def handle_events(self) -> None:
        """Handle what was received; a request whose headers are complete has more time for its body."""
        super().handle_events()
        match self.conn.their_state:
            case h11.SEND_BODY:
                if not self._has_headers:
                    self._has_headers = True
                    self._limit_receiving(BODY_SECONDS)
            case h11.DONE | h11.MUST_CLOSE | h11.CLOSED | h11.ERROR:
                self._has_headers = False
                self._limit_receiving(None)

    def pause_writing(self) -> None:
        """Wait for a slow reader for a limited time."""
        super().pause_writing()
        if self._sending is None:
            self._sending = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on with a reader that has read."""
        self._stop_sending_timer()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._limit_receiving(None)
        self._stop_sending_timer()
        super().connection_lost(exc)

    def _limit_receiving(self, seconds: float | None) -> None:
        if self._receiving is not None:
            self._receiving.cancel()
            self._receiving = None
        if seconds is not None:
            self._receiving = self.loop.call_later(seconds, self.transport.abort)

    def _stop_sending_timer(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None
