"""Web server of ``levelfield serve``. It only reads.

URLs contain hashes, never paths. Requests with an unknown Host header are rejected, so that a web page cannot
reach the server through a name that resolves to this machine (DNS rebinding).
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from levelfield.core.errors import LevelfieldError
from levelfield.records import Trial
from levelfield.reports.web import _html
from levelfield.reports.web._asset_response import asset_response
from levelfield.reports.web._experiment_states import ExperimentMonitor, ExperimentState
from levelfield.reports.web._slow_pages import SlowPages

if TYPE_CHECKING:
    from levelfield.reports.web.search import SearchBox

Endpoint = Callable[[Request], Response]
API = "/api/"
HEALTH = f"{API}v1/health"  # answered without a token, for programs that watch the server
LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    b"img-src 'self' data: blob:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    b"frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


def make_app(
    roots: Sequence[Path],
    *,
    hosts: Sequence[str] = (),
    search: SearchBox | None = None,
    token: str | None = None,
) -> Starlette:
    """Return the Starlette application.

    Args:
        roots: Directories of experiments.
        hosts: Additional allowed Host headers, besides those of this machine.
        search: Image search, if there is an index.
        token: Secret that every request must carry, except that for the health of the API; None for none.
    """
    monitor = ExperimentMonitor(roots)
    monitor.states()  # the first scan is the slowest; do it before the first request
    pages = _Pages(monitor, search)
    routes = [
        Route("/", pages.home),
        Route("/list", pages.listing),
        Route("/compare", pages.side_by_side),
        Route("/e/{key}", pages.experiment),
        Route("/e/{key}/live", pages.live),
        Route("/e/{key}/state", pages.live_state),
        Route("/e/{key}/report", pages.report),
        Route("/e/{key}/trials", pages.trials),
        Route("/e/{key}/trial/{search}/{number:int}", pages.trial),
        Route("/assets/{name}", assets),
    ]
    if search is not None:
        routes += search.routes(bool(roots))
    handlers = {LevelfieldError: _error_page, 404: _not_found, 405: _wrong_method}
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(_RequestGuard, hosts=frozenset((*LOCAL_HOSTS, *map(_host_header, hosts))), token=token)
        ],
        exception_handlers=handlers,  # type: ignore[arg-type]  # its type wants handlers of any Exception
    )


class _RequestGuard:
    """Middleware that rejects unknown hosts, cross-origin uploads and wrong tokens; adds security headers."""

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str], token: str | None = None) -> None:
        self._app, self._hosts, self._token = app, hosts, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message.get("headers", [])
                names = {name for name, _ in own}
                message["headers"] = [*own, *(line for line in HEADERS.items() if line[0] not in names)]
            await send(message)

        rejection = self._rejection(scope["headers"], scope["method"])
        if rejection:
            refused = _message(scope["path"], rejection, 403)
            await refused(scope, receive, send_with_headers)
        elif self._token is not None and scope["path"] != HEALTH and not self._knows_token(scope["headers"]):
            await _ask_for_token(scope["path"])(scope, receive, send_with_headers)
        else:
            with suppress(ClientDisconnect):  # a client that leaves is no error
                await self._app(scope, receive, send_with_headers)

    def _knows_token(self, headers: list[tuple[bytes, bytes]]) -> bool:
        """Return True if a request has the token, as a bearer token or as the password of a browser."""
        given = [value for name, value in headers if name == b"authorization"]
        if len(given) != 1 or self._token is None:
            return False
        scheme, _, secret = given[0].partition(b" ")
        if scheme.lower() == b"basic":
            try:
                secret = base64.b64decode(secret.strip(), validate=True).partition(b":")[2]
            except ValueError:
                return False
        elif scheme.lower() != b"bearer":
            return False
        return hmac.compare_digest(secret.strip(), self._token.encode())

    def _rejection(self, headers: list[tuple[bytes, bytes]], method: str) -> str:
        hosts = [value for name, value in headers if name == b"host"]
        if len(hosts) > 1:
            return "More than one Host header."
        host = hosts[0] if hosts else b""
        if _host_name(host) not in self._hosts:
            return "Unknown Host header; allow it with `levelfield serve --allow-host`."
        origins = [value for name, value in headers if name == b"origin"]
        cross_origin = any(not self._is_own(origin, host) for origin in origins)
        if cross_origin and method not in ("GET", "HEAD"):
            return "Uploads from other sites are rejected."
        return ""

    def _is_own(self, origin: bytes, host: bytes) -> bool:
        """Return True if ``origin`` is this server: an own name, with the port of ``host``."""
        scheme, _, address = origin.partition(b"://")
        return _host_name(address) in self._hosts and _port(address, scheme) == _port(host, scheme)


def _ask_for_token(path: str) -> Response:
    """Return the answer to a request without the token; a browser then asks for a password."""
    text = "The token is missing or wrong; send Authorization: Bearer TOKEN."
    headers = {"www-authenticate": 'Basic realm="levelfield: the token is the password", charset="UTF-8"'}
    if path.startswith(API):
        headers = {"www-authenticate": "Bearer"}
    return _message(path, text, 401, headers)


def _message(path: str, text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    """Return an error as JSON to users of the API, as text to others."""
    if path.startswith(API):
        return JSONResponse({"error": text}, status, headers)
    return PlainTextResponse(text, status, headers)


def _host_header(host: str) -> str:
    """Return a host name or address in the form of the Host header.

    Example:
        >>> _host_header("MyBox.local"), _host_header("fe80::1")
        ('mybox.local', '[fe80::1]')
    """
    return f"[{host.lower()}]" if ":" in host and not host.startswith("[") else host.lower()


def _host_name(address: bytes) -> str:
    """Return the name of a Host header without the port.

    Example:
        >>> _host_name(b"localhost:8000"), _host_name(b"[::1]:80"), _host_name(b"evil.example")
        ('localhost', '[::1]', 'evil.example')
    """
    return re.sub(r":\d+$", "", address.decode("latin-1").lower())


def _port(address: bytes, scheme: bytes) -> str:
    """Return the port of a Host header, or that of the scheme.

    Example:
        >>> _port(b"localhost:8000", b"http"), _port(b"[::1]", b"https"), _port(b"localhost", b"http")
        ('8000', '443', '80')
    """
    found = re.search(r":(\d+)$", address.decode("latin-1"))
    return found[1] if found else {b"https": "443"}.get(scheme.lower(), "80")


class _Pages:
    """Endpoints. Starlette runs them in threads; the lock of the monitor protects shared state."""

    def __init__(self, monitor: ExperimentMonitor, search: SearchBox | None) -> None:
        self._monitor = monitor
        self._search = search is not None
        self._slow = SlowPages()

    def home(self, _: Request) -> Response:
        """Return the list of experiments; redirect to the search if there is only an index."""
        if not self._monitor.roots and self._search:
            return RedirectResponse("/search")
        return HTMLResponse(_html.home_page(self._monitor.states(), self._monitor.version, self._search))

    def listing(self, request: Request) -> Response:
        """Return the table of experiments; 204 if it is unchanged."""
        version = self._monitor.version
        if request.query_params.get("since") == version:
            return Response(status_code=204)
        return HTMLResponse(_html.experiment_list(self._monitor.states(), version))

    def experiment(self, request: Request) -> Response:
        """Redirect to the report of a finished experiment, else to the live page."""
        state = self._find_state(request)
        if state is None:
            return _not_found(request)
        page = "report" if state.state == "finished" else "live"
        return RedirectResponse(f"/e/{state.key}/{page}")

    def live(self, request: Request) -> Response:
        """Return the live page of an experiment."""
        state = self._find_state(request)
        return _not_found(request) if state is None else HTMLResponse(_html.live_page(state, self._search))

    def live_state(self, request: Request) -> Response:
        """Return the changing part of the live page; 204 if it is unchanged."""
        state = self._find_state(request)
        if state is None:
            return _not_found(request)
        version, fragment = _html.live_fragment(state, since=request.query_params.get("since", ""))
        return (
            HTMLResponse(fragment, headers={"x-version": version}) if fragment else Response(status_code=204)
        )

    def report(self, request: Request) -> Response:
        """Return the report, rendered from the current records."""
        state = self._find_state(request)
        if state is None:
            return _not_found(request)
        return _streamed(self._slow.report(state))

    def trials(self, request: Request) -> Response:
        """Return one page of trials of a method."""
        state = self._find_state(request)
        method = request.query_params.get("method", "")
        if state is None or state.record is None or method not in state.record.searches:
            return _not_found(request)
        page = request.query_params.get("page", "1")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
        return HTMLResponse(_html.trials_page(state, method, number, self._search))

    def trial(self, request: Request) -> Response:
        """Return one trial: hyperparameters, runs and logs."""
        state = self._find_state(request)
        found: tuple[str, Trial] | None = None
        if state is not None:
            found = _html.find_trial(
                state, str(request.path_params["search"]), int(request.path_params["number"])
            )
        if state is None or found is None:
            return _not_found(request)
        method, trial = found
        search = str(request.path_params["search"])
        return HTMLResponse(_html.trial_page(state, method, search, trial, self._search))

    def side_by_side(self, request: Request) -> Response:
        """Return a comparison of experiments, as ``levelfield compare`` computes it."""
        keys = dict.fromkeys(request.query_params.getlist("e"))
        chosen = [state for key in keys if (state := self._monitor.state(key)) is not None]
        query = request.query_params
        return _streamed(
            self._slow.side_by_side(
                chosen, self._monitor.states(), query.get("metric"), query.get("setting"), self._search
            )
        )

    def _find_state(self, request: Request) -> ExperimentState | None:
        return self._monitor.state(str(request.path_params["key"]))


def assets(request: Request) -> Response:
    """Return a style sheet or script."""
    return asset_response(request, str(request.path_params["name"])) or _not_found(request)


def _streamed(pieces: Iterator[str]) -> Response:
    """Return a page that is sent piece by piece; errors before the first piece get a page of their own."""
    first = next(pieces)
    return StreamingResponse(chain([first], pieces), media_type="text/html")


def _not_found(request: Request, _: Exception | None = None) -> Response:
    path = request.url.path
    if path.startswith(API):
        return _message(path, f"there is no such address; {API}v1/openapi.json lists all", 404)
    return HTMLResponse(_html.message_page("Not found", "There is no such page or experiment."), 404)


def _wrong_method(request: Request, _: Exception) -> Response:
    text = f"this address does not take {request.method}; {API}v1/openapi.json lists what does"
    return _message(request.url.path, text, 405)


def _error_page(_: Request, error: Exception) -> Response:
    """Return a page with the message of a LevelfieldError."""
    return HTMLResponse(_html.message_page("This page cannot be shown", str(error)), 422)
