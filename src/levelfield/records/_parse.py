"""Read JSON as typed records; errors name the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from levelfield.core import files
from levelfield.core.errors import RunError
from levelfield.records._identity import SCHEMA_VERSION

RecordT = TypeVar("RecordT", bound=BaseModel)
RECOMPUTE = "delete that file and give the same command again"


def read_record(model: type[RecordT], file: Path) -> RecordT:
    """Return the record in ``file``."""
    return parse_record(model, files.read_json(file), file)


def schema_error(path: Path, found: object) -> RunError:
    """Return the error for a directory whose records have another schema version than this one."""
    if isinstance(found, int) and found < SCHEMA_VERSION:
        return RunError(
            f"{path} was written by a development version before 0.1 (schema {found}, this is schema "
            f"{SCHEMA_VERSION}); run the experiment again with a new --out directory"
        )
    return RunError(
        f"{path} was written by schema {found}, this is schema {SCHEMA_VERSION}; read it with the version "
        "that wrote it, or choose a new --out directory"
    )


def parse_record(model: type[RecordT], value: Any, file: Path | str, *, remedy: str = RECOMPUTE) -> RecordT:
    """Return ``value``, which was read from ``file``, as a record; raise RunError if it does not fit."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise RunError(
            f"{file} does not fit this version ({field}: {first['msg']}); "
            f"read it with the version that wrote it, or {remedy}"
        ) from error
