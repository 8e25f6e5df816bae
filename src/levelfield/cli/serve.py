"""``levelfield serve``: look at experiments while they run, side by side, and search with a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield.errors import RunError, UsageError


def serve(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders of experiments [runs, unless --index is given].", show_default=False),
    ] = None,
    *,
    index: Annotated[
        list[str] | None,
        typer.Option(help="An index to search with pictures; several stand side by side (repeatable)."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="The model folder, for an index in a database.", show_default=False)
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8321,
    host: Annotated[
        str, typer.Option(help="The address to listen on; others can then look, too.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another name that the server may be asked under (repeatable).")
    ] = None,
) -> None:
    """Serve a live page of all experiments in a folder; it reads and writes nothing. Ctrl+C ends it."""
    import socket

    try:
        import uvicorn

        from levelfield.web.server import make_app
    except ImportError as error:
        raise UsageError(f"levelfield serve needs {error.name}; pip install 'levelfield[web]'") from error
    roots = folders or ([] if index else [Path("runs")])
    search = None
    if index:
        from levelfield.web.search import SearchBox

        search = SearchBox(index, model=model)
    app = make_app(roots, hosts=[host, *(allow_host or ())], search=search)
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)  # who reads the address below and asks at once waits, and is not refused
    except OSError as error:
        raise RunError(
            f"cannot listen on {host}:{port} ({error.strerror or error}); choose another --port"
        ) from error
    name = f"[{host}]" if ":" in host else host
    print(f"http://{name}:{listener.getsockname()[1]}/", flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        if search is not None:
            search.close()
