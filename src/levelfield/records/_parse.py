"""From JSON to a typed record, with an error that names the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from levelfield import files
from levelfield.errors import RunError

RecordT = TypeVar("RecordT", bound=BaseModel)


def read_record(
    model: type[RecordT], file: Path, *, upgrade: Callable[[Any], Any] = lambda value: value
) -> RecordT:
    """The record in ``file``; ``upgrade`` turns what an older version wrote into what this one writes."""
    return parse(model, upgrade(files.read_json(file)), file)


def parse(model: type[RecordT], value: Any, file: Path) -> RecordT:
    """``value``, which came from ``file``, as a record."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise RunError(
            f"{file} does not fit this version ({field}: {first['msg']}); "
            "read it with the version that wrote it, or delete that file and give the same command again"
        ) from error
