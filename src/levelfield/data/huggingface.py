"""Any labelled image dataset of the Hugging Face hub, as ``hf:OWNER/NAME``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from levelfield.data import registry
from levelfield.data._dataset import Dataset, DatasetCard, Rows
from levelfield.data._hf_stream import keep_stream
from levelfield.data._pictures import PictureImages, fingerprint
from levelfield.errors import RunError, UsageError, did_you_mean
from levelfield.hubs import no_vain_retries
from levelfield.registry import Entry

_TEST = ("test", "validation", "val")  # parts that may be the official test set, the best first


@registry.family("hf")
def resolve(name: str) -> Entry[DatasetCard]:
    """The entry of ``hf:NAME``: a dataset of the hub, or a folder on this machine."""

    def load(
        *,
        image: str = "image",
        label: str = "label",
        config: str | None = None,
        revision: str | None = None,
        split: str | None = None,
        streaming: bool = False,
        limit: Annotated[int, Field(ge=1)] | None = None,
    ) -> Dataset:
        parts = _open(name, config, revision, streaming=streaming)
        if streaming:
            if split is not None and split in parts:
                parts = {split: parts[split]}
            settings = {"config": config, "content": _content(name, revision), "columns": [image, label]}
            parts = keep_stream(parts, image, label, name=name, settings=settings, limit=limit)
        return _load(name, parts, image, label, split=split, limit=None if streaming else limit)

    card = DatasetCard(
        name=f"hf:{name}",
        summary=f"{name} of the Hugging Face hub; image and label name its columns, split one of its parts; "
        "streaming reads only the first `limit` rows of each part.",
        licence="See the dataset's card on the hub",
        source=f"https://huggingface.co/datasets/{name}",
    )
    return Entry(load, card)


def _load(
    name: str, parts: dict[str, Any], image: str, label: str, *, split: str | None, limit: int | None
) -> Dataset:
    if split is not None:
        if split not in parts:
            raise UsageError(f'hf:{name} has no part "{split}"{did_you_mean(split, parts)}')
        parts = {split: parts[split]}
    if limit is not None:
        parts = {part: found.select(range(min(limit, len(found)))) for part, found in parts.items()}
    for column in (image, label):
        known = next(iter(parts.values())).column_names
        if column not in known:
            raise UsageError(f'hf:{name} has no column "{column}"{did_you_mean(column, known)}')
    values = [value for part in parts.values() for value in part[label]]
    if not all(isinstance(value, int | str) for value in values):
        raise UsageError(f'hf:{name}: column "{label}" holds no single class per image; name another one')
    order, ids = np.unique(np.array(values), return_inverse=True)
    named = getattr(next(iter(parts.values())).features[label], "names", None)
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts.values()])
    rows = np.concatenate([np.arange(len(part)) for part in parts.values()])
    images = PictureImages(_Picture(list(parts.values()), owners, rows, image), np.arange(len(ids)))
    test = next((list(parts).index(part) for part in _TEST if len(parts) > 1 and part in parts), None)
    validation = next(
        (n for n, part in enumerate(parts) if part in {"validation", "val"} and n != test and len(parts) > 1),
        None,
    )
    return Dataset(
        name=f"hf:{name}",
        images=images,
        labels=ids.astype(np.int64),
        class_names=tuple(str(named[key]) if named else str(key) for key in order.tolist()),
        fingerprint=fingerprint(images, ids, owners, order.tolist()),
        is_test=None if test is None else owners == test,
        is_validation=None if validation is None else owners == validation,
    )


class _Picture:
    """Row to picture, as a class so that it can be sent to another process."""

    def __init__(self, parts: list[Any], owners: Rows, rows: Rows, column: str) -> None:
        self._parts, self._owners, self._rows, self._column = parts, owners, rows, column

    def __call__(self, row: int) -> object:
        return self._parts[self._owners[row]][int(self._rows[row])][self._column]


def _open(name: str, config: str | None, revision: str | None, *, streaming: bool) -> dict[str, Any]:
    """The dataset's parts by name; a stream is opened, and not yet read."""
    try:
        import datasets
    except ImportError as error:
        raise UsageError("hf: datasets need the extra: pip install 'levelfield[huggingface]'") from error
    try:
        if (Path(name) / "dataset_dict.json").is_file() or (Path(name) / "dataset_info.json").is_file():
            loaded = datasets.load_from_disk(name)
            if streaming:
                loaded = _as_streams(loaded)
        else:
            with no_vain_retries():
                loaded = datasets.load_dataset(name, config, revision=revision, streaming=streaming)
    except Exception as error:  # the library raises a dozen kinds, of its own and of the network's
        reason = " ".join(str(error).split())[:200]
        remedy = "check the name, or go online once: what was fetched is kept"
        raise RunError(f"hf:{name} cannot be opened: {reason}; {remedy}") from error
    return dict(loaded) if isinstance(loaded, dict) else {"all": loaded}


def _as_streams(loaded: Any) -> Any:
    if isinstance(loaded, dict):
        return {part: found.to_iterable_dataset() for part, found in loaded.items()}
    return loaded.to_iterable_dataset()


def _content(name: str, revision: str | None) -> str:
    """What names the content now: the hub's commit, or the files of a folder."""
    folder = Path(name)
    if folder.is_dir():
        return repr(
            sorted((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in folder.rglob("*"))
        )
    from huggingface_hub import HfApi

    try:
        return str(HfApi().dataset_info(name, revision=revision).sha)
    except Exception as error:  # the library raises a dozen kinds
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise RunError(
            f"hf:{name}: the hub does not answer ({reason}); streaming needs the network"
        ) from error
