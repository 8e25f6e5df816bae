"""``index.json``: which model the vectors are of, and how they are searched."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from levelfield.embedders import ModelCard
from levelfield.errors import RunError, UsageError
from levelfield.files import read_json, write_json
from levelfield.index._approximate import EXACT_UP_TO, Approximation
from levelfield.index._vectors import REMEDY, SHARD_ROWS

FORMAT: Final = "levelfield-index"
VERSION: Final = 1
CARD = "index.json"


class IndexCard(BaseModel):
    """The content of ``index.json``.

    Attributes:
        model: The card of the model that all vectors are of; it has the threshold, if there is one.
        memory: Bytes that the approximate part may take.
        recall: The recall at 10 that it aims at.
        shard_rows: How many vectors a file holds.
        exact_up_to: Up to so many pictures the search is exact.
        approximate: The approximate part; None while the search is exact.
        approximate_file: Where it lies.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["levelfield-index"] = FORMAT
    version: Literal[1] = VERSION
    model: ModelCard
    memory: int
    recall: float
    shard_rows: int = SHARD_ROWS
    exact_up_to: int = EXACT_UP_TO
    approximate: Approximation | None = None
    approximate_file: str = ""


def is_index(folder: Path) -> bool:
    """Whether there is an index in ``folder``."""
    return (folder / CARD).is_file()


def read_index_card(folder: Path) -> IndexCard:
    """The card of the index in ``folder``; one clear line if there is none."""
    file = folder / CARD
    if not file.is_file():
        raise UsageError(f"{folder} is no index (it has no {CARD}); make one with levelfield index")
    content = read_json(file)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UsageError(f"{file} does not describe a levelfield index; make one with levelfield index")
    if content.get("version") != VERSION:
        raise UsageError(
            f"{file} has version {content.get('version')}, this levelfield reads version {VERSION}; "
            "use the levelfield that wrote it, or make the index again"
        )
    try:
        return IndexCard.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunError(f"{file} is damaged ({where}: {first['msg']}); make the index again") from error


def write_index_card(folder: Path, card: IndexCard) -> None:
    """Write it, whole or not at all."""
    write_json(folder / CARD, card.model_dump(mode="json"), remedy=REMEDY)


def check_same_model(made_with: ModelCard, model: ModelCard, where: str) -> None:
    """Refuse vectors of another model: they live in another space."""
    if made_with.identity != model.identity:
        raise UsageError(
            f"{where} was made with another model ({made_with.name}, {made_with.identity[:12]}) than "
            f"{model.name} ({model.identity[:12]}); use that model, or make a new index with -o"
        )
