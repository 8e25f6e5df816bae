"""The live page: routes of ``levelfield serve``. It reads, and writes nothing.

Addresses hold hashes, never paths. Requests that name another host are refused, so that a page elsewhere
cannot reach the server by having its own name resolve to this machine (DNS rebinding).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from levelfield.errors import LevelfieldError
from levelfield.records import Trial
from levelfield.reports.pages import ASSETS, asset
from levelfield.web import _views
from levelfield.web._folder import Catalogue, ExperimentState

if TYPE_CHECKING:
    from levelfield.web.search import SearchBox

Endpoint = Callable[[Request], Response]
LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
TYPES = {".js": "text/javascript", ".css": "text/css", ".txt": "text/plain"}
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
    roots: Sequence[Path], *, hosts: Sequence[str] = (), search: SearchBox | None = None
) -> Starlette:
    """The application.

    Args:
        roots: Folders of experiments.
        hosts: Names under which the server may be asked, besides those of this machine.
        search: The search box, if there is an index to search.
    """
    catalogue = Catalogue(roots)
    catalogue.states()  # the first look takes longest; nobody should wait for it
    pages = _Pages(catalogue, search)
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
    handlers = {LevelfieldError: _said, 404: _not_found}
    return Starlette(
        routes=routes,
        middleware=[Middleware(_Guard, hosts=frozenset((*LOCAL_HOSTS, *map(_as_asked, hosts))))],
        exception_handlers=handlers,  # type: ignore[arg-type]
    )


class _Guard:
    """Refuses other hosts' names and other sites' uploads; gives every answer the headers of safety."""

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS.items()]
            await send(message)

        refusal = self._refusal(dict(scope["headers"]), scope["method"])
        if refusal:
            await PlainTextResponse(refusal, status_code=403)(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _refusal(self, headers: dict[bytes, bytes], method: str) -> str:
        if _host_name(headers.get(b"host", b"")) not in self._hosts:
            return (
                "This server answers under the names of its own machine only; see `levelfield serve --help`."
            )
        origin = headers.get(b"origin", b"")
        elsewhere = bool(origin) and _host_name(origin.partition(b"://")[2]) not in self._hosts
        if elsewhere and method not in ("GET", "HEAD"):
            return "Uploads from other sites are refused."
        return ""


def _as_asked(host: str) -> str:
    """A name or an address as a browser puts it into the Host header.

    Example:
        >>> _as_asked("MyBox.local"), _as_asked("fe80::1")
        ('mybox.local', '[fe80::1]')
    """
    return f"[{host.lower()}]" if ":" in host and not host.startswith("[") else host.lower()


def _host_name(address: bytes) -> str:
    """The name in a Host header, without the port.

    Example:
        >>> _host_name(b"localhost:8000"), _host_name(b"[::1]:80"), _host_name(b"evil.example")
        ('localhost', '[::1]', 'evil.example')
    """
    return re.sub(r":\d+$", "", address.decode("latin-1").lower())


class _Pages:
    """The endpoints. Starlette runs them in threads; what they share is behind the catalogue's lock."""

    def __init__(self, catalogue: Catalogue, search: SearchBox | None) -> None:
        self._catalogue = catalogue
        self._search = search is not None
        self._reports = _views.ReportCache()

    def home(self, _: Request) -> Response:
        """All experiments; with nothing but an index, the search box."""
        if not self._catalogue.roots and self._search:
            return RedirectResponse("/search")
        return HTMLResponse(_views.home_page(self._catalogue.states(), self._catalogue.version, self._search))

    def listing(self, request: Request) -> Response:
        """The table of experiments alone; nothing (204) if it is as it was."""
        version = self._catalogue.version
        if request.query_params.get("since") == version:
            return Response(status_code=204)
        return HTMLResponse(_views.listing(self._catalogue.states(), version))

    def experiment(self, request: Request) -> Response:
        """The report of a finished experiment, the live page of any other."""
        state = self._known(request)
        if state is None:
            return _not_found(request)
        page = "report" if state.state == "finished" else "live"
        return RedirectResponse(f"/e/{state.key}/{page}")

    def live(self, request: Request) -> Response:
        """The page of an experiment that is not finished; it updates itself."""
        state = self._known(request)
        return _not_found(request) if state is None else HTMLResponse(_views.live_page(state, self._search))

    def live_state(self, request: Request) -> Response:
        """The part of the live page that changes; nothing (204) if it is as it was."""
        state = self._known(request)
        if state is None:
            return _not_found(request)
        version, fragment = _views.live_state(state, since=request.query_params.get("since", ""))
        return (
            HTMLResponse(fragment, headers={"x-version": version}) if fragment else Response(status_code=204)
        )

    def report(self, request: Request) -> Response:
        """The report, made from the records as they are now."""
        state = self._known(request)
        if state is None:
            return _not_found(request)
        return HTMLResponse(self._reports.page(state))

    def trials(self, request: Request) -> Response:
        """The trials of one method, a page at a time."""
        state = self._known(request)
        method = request.query_params.get("method", "")
        if state is None or state.index is None or method not in state.index.searches:
            return _not_found(request)
        page = request.query_params.get("page", "1")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
        return HTMLResponse(_views.trials_page(state, method, number, self._search))

    def trial(self, request: Request) -> Response:
        """One trial: its hyperparameters, its runs and their logs."""
        state = self._known(request)
        found: tuple[str, Trial] | None = None
        if state is not None:
            found = _views.find_trial(
                state, str(request.path_params["search"]), int(request.path_params["number"])
            )
        if state is None or found is None:
            return _not_found(request)
        method, trial = found
        search = str(request.path_params["search"])
        return HTMLResponse(_views.trial_page(state, method, search, trial, self._search))

    def side_by_side(self, request: Request) -> Response:
        """Two or more experiments, compared as ``levelfield compare`` does."""
        keys = dict.fromkeys(request.query_params.getlist("e"))
        chosen = [state for key in keys if (state := self._catalogue.state(key)) is not None]
        query = request.query_params
        page = _views.side_by_side(
            chosen, self._catalogue.states(), query.get("metric"), query.get("setting"), self._search
        )
        return HTMLResponse(page)

    def _known(self, request: Request) -> ExperimentState | None:
        return self._catalogue.state(str(request.path_params["key"]))


def assets(request: Request) -> Response:
    """Style and scripts."""
    name = str(request.path_params["name"])
    if name == "live.js":
        return Response(_views.live_script(), media_type="text/javascript")
    if name not in ASSETS:
        return _not_found(request)
    return Response(asset(name), media_type=TYPES[Path(name).suffix])


def _not_found(_: Request, __: Exception | None = None) -> Response:
    return HTMLResponse(_views.message_page("Nothing here", "There is no such page or experiment."), 404)


def _said(_: Request, error: Exception) -> Response:
    """An error that names its remedy is an answer, not a crash."""
    return HTMLResponse(_views.message_page("This cannot be shown", str(error)), 422)
