"""``levelfield serve``: live pages of experiments, and image search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelfield.cli._trust import TrustOption
from levelfield.core.errors import RunError, UsageError


def serve(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Directories with experiments. Defaults to runs, or to none with --index.",
            show_default=False,
        ),
    ] = None,
    *,
    index: Annotated[
        list[str] | None,
        typer.Option(help="Index for image search (repeatable: results side by side)."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="Model directory; only for an index in a database.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 chooses a free one.")] = 8321,
    host: Annotated[
        str, typer.Option(help="Address to listen on; with 0.0.0.0 other machines can connect.")
    ] = "127.0.0.1",
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Additional allowed Host header (repeatable).")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with a secret that requests must carry; as bearer token, or as password in a browser.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        int, typer.Option(min=0, help="Maximum number of searches per minute and client; 0 for no limit.")
    ] = 600,
    trust: TrustOption = False,
) -> None:
    """Serve live, read-only pages of all experiments in a directory. Ctrl+C stops the server."""
    import socket

    try:
        import uvicorn

        from levelfield.reports.web.connections import server_config
        from levelfield.reports.web.server import make_app
    except ImportError as error:
        raise UsageError(f"levelfield serve needs {error.name}; run pip install 'levelfield[web]'") from error
    from levelfield.records import EXPERIMENTS_DIRECTORY

    token = None if token_file is None else _read_token(token_file)
    roots = directories or ([] if index else [EXPERIMENTS_DIRECTORY])
    search = None
    if index:
        from levelfield.reports.web.search import SearchBox

        search = SearchBox(index, model=model, trust=trust, rate=rate)
    app = make_app(roots, hosts=[host, *(allow_host or ())], search=search, token=token)
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)  # connections made right after the address is printed wait and are not refused
    except OSError as error:
        raise RunError(
            f"cannot listen on {host}:{port} ({error.strerror or error}); choose another --port"
        ) from error
    name = f"[{host}]" if ":" in host else host
    print(f"http://{name}:{listener.getsockname()[1]}/", flush=True)
    try:
        uvicorn.Server(server_config(app)).run(sockets=[listener])
    finally:
        if search is not None:
            search.close()


def _read_token(file: Path) -> str:
    """Return the token in a file: one line of at least 16 visible ASCII characters."""
    try:
        with file.open("rb") as stream:
            text = stream.read(4096).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read a token from {file}; write one line of ASCII text to it") from error
    if not 16 <= len(text) <= 1000 or not text.isprintable() or " " in text:
        raise UsageError(
            f"the token in {file} is not one word of 16 to 1000 characters; "
            "make one with openssl rand -hex 24"
        )
    return text
