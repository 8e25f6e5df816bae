"""Directories that are deleted or replaced while they are served give plain answers, never a traceback."""

from __future__ import annotations

import logging
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.reports.web.test_connections import started

from levelfield.reports.web.server import make_app


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.slow
@pytest.mark.parametrize("deleted", ["all", "experiment.json", "searches"])
def test_what_is_deleted_is_not_found(
    deleted: str, finished_tiny: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    root = finished_tiny("served/tiny")
    search = next((root / "searches").iterdir()).name
    with caplog.at_level(logging.WARNING):
        for port in started(make_app([root.parent])):
            home = f"http://127.0.0.1:{port}"
            found = re.search(r'value="([0-9a-f]{8,})"|/e/([0-9a-f]{8,})', get(f"{home}/")[1])
            assert found is not None
            key = found[1] or found[2]
            pages = ["/", "/list", f"/compare?e={key}", f"/e/{key}", f"/e/{key}/live", f"/e/{key}/state"]
            pages += [f"/e/{key}/report", f"/e/{key}/trials?method=triplet", f"/e/{key}/trial/{search}/0"]
            assert all(get(home + page)[0] == 200 for page in pages)
            gone = root.parent if deleted == "all" else root / deleted
            shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
            answers = {page: get(home + page)[0] for page in pages}
            assert set(answers.values()) <= {200, 204, 404, 422}, answers
            assert get(f"{home}/")[0] == 200
    assert "Traceback" not in caplog.text and "Exception in ASGI" not in caplog.text
