"""Style sheet and scripts of the server: sent compressed, and kept by the browser."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from levelfield.reports.pages import ASSETS, digest_of
from levelfield.reports.web._assets import OWN_SCRIPTS, asset_text

TYPES = {".js": "text/javascript", ".css": "text/css", ".txt": "text/plain"}
KEPT = "private, max-age=31536000, immutable"  # for addresses that change with the content


@cache
def _compressed(name: str) -> bytes:
    return gzip.compress(asset_text(name).encode(), compresslevel=9, mtime=0)


def asset_response(request: Request, name: str) -> Response | None:
    """Return a style sheet or script; None if there is none of this name.

    A browser keeps a file that was asked for with the digest of its content. Without it, the browser asks
    again and gets 304 if nothing has changed.
    """
    if name not in (*ASSETS, *OWN_SCRIPTS):
        return None
    version = digest_of(asset_text(name))
    headers = {"etag": f'"{version}"', "vary": "accept-encoding"}
    headers["cache-control"] = KEPT if request.query_params.get("v") == version else "private, no-cache"
    if version in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(_compressed(name), headers=headers, media_type=TYPES[Path(name).suffix])
    return Response(asset_text(name), headers=headers, media_type=TYPES[Path(name).suffix])
