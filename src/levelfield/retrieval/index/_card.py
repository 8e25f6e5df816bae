"""``index.json``: the model of the vectors and the settings of the search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from levelfield.core.errors import RunError, UsageError
from levelfield.core.files import read_json, write_json
from levelfield.retrieval.embedders import ModelCard
from levelfield.retrieval.embedders._card import MAX_BYTES
from levelfield.retrieval.index._approximate import EXACT_UP_TO, ApproximateCard
from levelfield.retrieval.index._vectors import REMEDY, SHARD_ROWS

FORMAT: Final = "levelfield-index"
VERSION: Final = 1
CARD = "index.json"


class IndexCard(BaseModel):
    """Content of ``index.json``.

    Attributes:
        model: Card of the model that computed all vectors, with the match threshold if there is one.
        memory: Maximum size of the approximate part in bytes.
        recall: Target recall at 10 of the approximate part.
        shard_rows: Number of vectors per file.
        exact_up_to: Maximum number of images for exact search.
        approximate: Description of the approximate part; None while the search is exact.
        approximate_file: Its file name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["levelfield-index"] = FORMAT
    version: Literal[1] = VERSION
    model: ModelCard
    memory: Annotated[int, Field(ge=0, le=2**60)]
    recall: Annotated[float, Field(ge=0, le=1)]
    shard_rows: Annotated[int, Field(ge=1, le=2**40)] = SHARD_ROWS
    exact_up_to: Annotated[int, Field(ge=0, le=2**60)] = EXACT_UP_TO
    approximate: ApproximateCard | None = None
    # A name, so that it cannot lead out of the directory.
    approximate_file: Annotated[str, Field(pattern=r"^(approximate-[a-z0-9-]{1,60}\.faiss)?$")] = ""


def is_index(directory: Path) -> bool:
    """Return True if ``directory`` holds an index."""
    return (directory / CARD).is_file()


def read_index_card(directory: Path) -> IndexCard:
    """Return the card of the index in ``directory``; raise if there is none or it cannot be read."""
    file = directory / CARD
    if not file.is_file():
        raise UsageError(f"{directory} is not an index (it has no {CARD}); create one with levelfield index")
    content = read_json(file, max_bytes=MAX_BYTES)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UsageError(f"{file} is not a levelfield index card; create one with levelfield index")
    if content.get("version") != VERSION:
        raise UsageError(
            f"{file} has version {content.get('version')}, this levelfield reads version {VERSION}; "
            "use the levelfield version that wrote it, or create the index again"
        )
    try:
        return IndexCard.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RunError(f"{file} is damaged ({where}: {first['msg']}); create the index again") from error


def write_index_card(directory: Path, card: IndexCard) -> None:
    """Write the card atomically."""
    write_json(directory / CARD, card.model_dump(mode="json"), remedy=REMEDY)


def check_same_model(made_with: ModelCard, model: ModelCard, where: str) -> None:
    """Raise if the models differ: their vectors cannot be compared."""
    if made_with.identity != model.identity:
        raise UsageError(
            f"{where} was made with another model ({made_with.name}, {made_with.identity[:12]}) than "
            f"{model.name} ({model.identity[:12]}); use that model, or create a new index with -o"
        )
