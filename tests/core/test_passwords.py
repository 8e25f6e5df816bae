"""A password in an address appears in no message."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelfield.cli._app import run_app
from levelfield.config import TrackSpec
from levelfield.core.errors import RunError, mask_password
from levelfield.track._send import resend_hint

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://me:{SECRET}@host/images",
        f"postgres://me:{SECRET}@host:5432/images?table=birds",
        f"postgresql+psycopg://me:{SECRET}@host/images",
        f"postgresql://me:{SECRET}/{SECRET}@{SECRET}@host/images",
        f"postgresql://host/images?user=me&password={SECRET}",
        f"postgresql+psycopg:/me:{SECRET}@host/images",
        f"host=there password='{SECRET} {SECRET}' dbname=images",
    ],
)
def test_passwords_are_masked(address: str) -> None:
    assert SECRET not in mask_password(f"cannot reach {address}: refused")
    assert SECRET not in str(RunError(f"cannot reach {address}: refused"))


def test_other_text_is_left_alone() -> None:
    for text in ("https://host/a@b", "postgresql://me@host/images", "a:b@c", "time: 10:30 @ noon"):
        assert mask_password(text) == text


@pytest.mark.parametrize("scheme", ["POSTGRESQL://", "postgresql+psycopg://", " postgresql://", "mysql://"])
def test_an_address_of_another_kind_is_no_directory(
    scheme: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    address = f"{scheme}me:{SECRET}@localhost:9/images"
    for command in (["search", address, "x.png"], ["index", "--remove", "a", "-o", address]):
        assert run_app(command) == 2
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err
    assert shown.err.count("write postgresql://USER@HOST:PORT/DATABASE") == 2
    assert not list(tmp_path.iterdir())


def test_the_hint_to_send_records_again_masks_the_password() -> None:
    spec = TrackSpec.model_validate({"name": "mlflow", "uri": f"http://me:{SECRET}@host:5000"})
    assert "me:***@host" in (hint := resend_hint(Path("runs/mine"), spec)) and SECRET not in hint


def test_the_command_line_masks_the_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("psycopg")
    from levelfield.retrieval import index

    address = f"postgresql://me:{SECRET}@localhost:9/images"
    assert run_app(["index", "--remove", "a", "-o", address]) == 1  # no server there
    monkeypatch.setattr(index, "remove_images", lambda out, names: (1, 2))
    assert run_app(["index", "--remove", "a", "-o", address]) == 0
    monkeypatch.setattr(index, "remove_images", lambda out, names: (0, 2))
    assert run_app(["index", "--remove", "a", "-o", address]) == 2
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err and "me:***@localhost" in shown.out + shown.err
