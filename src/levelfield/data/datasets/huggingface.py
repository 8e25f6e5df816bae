"""Any labeled image dataset of the Hugging Face hub, as ``hf:OWNER/NAME``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from levelfield.core.errors import RunError, UsageError, did_you_mean
from levelfield.core.hubs import offline_if_unreachable
from levelfield.core.registry import RegistryEntry
from levelfield.data import registry
from levelfield.data._content import Digests, as_digests, hash_files, remember_digests
from levelfield.data._dataset import Dataset, DatasetCard, Rows
from levelfield.data._pillow_images import PillowImages, fingerprint
from levelfield.data.datasets._hf_cells import decode_cell, hash_cell, is_local_file, undecoded
from levelfield.data.datasets._hf_stream import StreamedPart, cache_streams
from levelfield.records import digest

_TEST = ("test", "validation", "val")  # parts that may be the official test set, the best first


@registry.family("hf")
def resolve_hf_dataset(name: str) -> RegistryEntry[DatasetCard]:
    """Return the registry entry of ``hf:NAME``: a dataset on the hub, or a local folder."""

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
            settings = {"config": config, "content": _content_id(name, revision), "columns": [image, label]}
            parts = cache_streams(parts, image, label, name=name, settings=settings, limit=limit)
        return _load(name, parts, image, label, split=split, limit=None if streaming else limit)

    card = DatasetCard(
        name=f"hf:{name}",
        summary=f"{name} of the Hugging Face hub; image and label name its columns, split one of its parts; "
        "streaming reads only the first `limit` rows of each part.",
        license="See the dataset's card on the hub",
        source=f"https://huggingface.co/datasets/{name}",
    )
    return RegistryEntry(load, card)


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
    parts = {
        part: found if isinstance(found, StreamedPart) else undecoded(found, image, label, name=name)
        for part, found in parts.items()
    }
    values = [value for part in parts.values() for value in part[label]]
    if not all(isinstance(value, int | str) for value in values):
        raise UsageError(
            f'hf:{name}: column "{label}" does not hold one class per image; set label to another one'
        )
    order, ids = np.unique(np.array(values), return_inverse=True)
    named = getattr(next(iter(parts.values())).features[label], "names", None)
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts.values()])
    rows = np.concatenate([np.arange(len(part)) for part in parts.values()])
    images = PillowImages(_RowReader(list(parts.values()), owners, rows, image), np.arange(len(ids)))
    digests = np.concatenate([_digests(part, image) for part in parts.values()])
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
        fingerprint=fingerprint(digests, ids, owners, order.tolist()),
        digests=digests,
        is_test=None if test is None else owners == test,
        is_validation=None if validation is None else owners == validation,
    )


def _digests(part: Any, column: str) -> Digests:
    """Return the digest of each image of a part: of its file if the part holds files, else of its pixels."""
    if isinstance(part, StreamedPart):
        return part.digests()

    def cells() -> Iterator[Any]:
        for batch in part.select_columns([column]).iter(64):
            yield from batch[column]

    if any(is_local_file(cell) for cell in cells()):  # the part holds paths; the files may change without it
        return as_digests([hash_cell(cell) for cell in cells()])
    kept = [file["filename"] for file in getattr(part, "cache_files", [])]
    return remember_digests(
        f"{column} {getattr(part, '_fingerprint', '')}",
        kept,
        lambda: as_digests([hash_cell(cell) for cell in cells()]),
    )


class _RowReader:
    """Function from a row to its image; a class, so that it can be pickled."""

    def __init__(self, parts: list[Any], owners: Rows, rows: Rows, column: str) -> None:
        self._parts, self._owners, self._rows, self._column = parts, owners, rows, column

    def __call__(self, row: int) -> object:
        return decode_cell(self._parts[self._owners[row]][int(self._rows[row])][self._column])


def _open(name: str, config: str | None, revision: str | None, *, streaming: bool) -> dict[str, Any]:
    """Return the parts of the dataset by name; streams are opened but not read."""
    try:
        import datasets
    except ImportError as error:
        raise UsageError(
            "hf: datasets need an extra package; run pip install 'levelfield[huggingface]'"
        ) from error
    try:
        if (Path(name) / "dataset_dict.json").is_file() or (Path(name) / "dataset_info.json").is_file():
            loaded = datasets.load_from_disk(name)
            if streaming:
                loaded = _as_streams(loaded)
        else:
            with offline_if_unreachable():
                # Before version 4 the library ran the Python files of a dataset.
                old = int(datasets.__version__.partition(".")[0]) < 4
                settings = {"trust_remote_code": False} if old else {}
                loaded = datasets.load_dataset(
                    name, config, revision=revision, streaming=streaming, **settings
                )
    except Exception as error:  # the library raises many types of errors
        reason = " ".join(str(error).split())[:200]
        remedy = "check the name and the network; fetched data are cached"
        raise RunError(f"hf:{name} cannot be opened: {reason}; {remedy}") from error
    return dict(loaded) if isinstance(loaded, dict) else {"all": loaded}


def _as_streams(loaded: Any) -> Any:
    if isinstance(loaded, dict):
        return {part: found.to_iterable_dataset() for part, found in loaded.items()}
    return loaded.to_iterable_dataset()


def _content_id(name: str, revision: str | None) -> str:
    """Return an identifier of the current content: the commit on the hub, or the files of a folder."""
    folder = Path(name)
    if folder.is_dir():
        paths = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
        return digest([paths, hash_files(folder, paths).digests.tobytes().hex()])
    from huggingface_hub import HfApi

    try:
        return str(HfApi().dataset_info(name, revision=revision).sha)
    except Exception as error:  # the library raises many types of errors
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise RunError(
            f"hf:{name}: the hub cannot be reached ({reason}); check the network, which streaming needs"
        ) from error
