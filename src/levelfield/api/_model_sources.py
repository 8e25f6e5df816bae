"""Embeddings of models to compare: from files, from memory, or from functions that compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.core.errors import LevelfieldError, UsageError
from levelfield.metrics.files import EmbeddingFile, read_embeddings

BATCH = 256  # inputs that a function gets at once


@dataclass(frozen=True)
class Source:
    """Embeddings of one seed of a model, loaded when they are needed.

    Attributes:
        name: Name in messages.
        load: Function that returns the embeddings.
    """

    name: str
    load: Callable[[], EmbeddingFile]


def list_sources(models: Mapping[str, Any], *, labels: Any, inputs: Any = None) -> dict[str, list[Source]]:
    """Return the sources of each model, one per seed.

    Args:
        models: By name: a path, ``(embeddings, labels)``, embeddings, a function of a batch of inputs, or a
            list of these with one entry per seed.
        labels: Labels of all models that have none of their own.
        inputs: Inputs of the functions, such as images; a sequence or an array.
    """
    found = {}
    for name, given in models.items():
        entries = given if _is_list_of_seeds(given) else [given]
        if not entries:
            raise UsageError(f'model "{name}" is an empty list; give at least one seed')
        named = [name] if len(entries) == 1 else [f"{name}, seed {n}" for n in range(1, len(entries) + 1)]
        found[str(name)] = [
            Source(own, partial(_load, entry, name=own, labels=labels, inputs=inputs))
            for own, entry in zip(named, entries, strict=True)
        ]
    return found


def _is_list_of_seeds(given: Any) -> bool:
    if not isinstance(given, list):
        return False
    return all(
        isinstance(each, str | Path | tuple) or callable(each) or getattr(each, "ndim", 0) == 2
        for each in given
    )


def _load(entry: Any, *, name: str, labels: Any, inputs: Any) -> EmbeddingFile:
    if isinstance(entry, str | Path):
        found = read_embeddings(entry)
        return found if labels is None else replace(found, labels=_as_array(labels))
    if isinstance(entry, tuple):
        if len(entry) != 2:
            raise UsageError(f"{name} is a tuple of {len(entry)}; give (embeddings, labels)")
        return EmbeddingFile(_as_matrix(entry[0], name), _as_array(entry[1]))
    if callable(entry):
        entry = embed_inputs(entry, inputs, name=name)
    return EmbeddingFile(_as_matrix(entry, name), None if labels is None else _as_array(labels))


def _as_matrix(embeddings: Any, name: str) -> Any:
    """Return lists as an array; arrays and tensors stay where they are."""
    if hasattr(embeddings, "ndim"):
        return embeddings
    try:
        return np.asarray(embeddings, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} is not a table of numbers ({error}); give embeddings N x D") from error


def _as_array(labels: Any) -> np.ndarray[Any, Any]:
    return np.asarray(labels.detach().cpu() if hasattr(labels, "detach") else labels)


def embed_inputs(function: Callable[[Any], Any], inputs: Any, *, name: str) -> np.ndarray[Any, Any]:
    """Return the embeddings (N x D) that a function computes, a batch of inputs at a time.

    Raises:
        UsageError: There are no inputs, the function fails, or its results differ in size.
    """
    if inputs is None or not len(inputs):
        raise UsageError(f"{name} is a function; give its inputs with inputs=")
    parts: list[np.ndarray[Any, Any]] = []
    for start in range(0, len(inputs), BATCH):
        batch = inputs[start : start + BATCH]
        try:
            made = function(batch)
        except LevelfieldError:
            raise
        except Exception as error:  # it is the user's function: any error of it is about this model only
            raise UsageError(
                f"{name} failed on the inputs from {start} on: {type(error).__name__}: {error}"
            ) from error
        part = np.asarray(made.detach().cpu() if hasattr(made, "detach") else made)
        if part.ndim != 2 or len(part) != len(batch):
            raise UsageError(
                f"{name} returned shape {part.shape} for {len(batch)} inputs; return one row per input"
            )
        if parts and part.shape[1] != parts[0].shape[1]:
            raise UsageError(
                f"{name} returned {part.shape[1]} numbers per input for inputs {start} and later, "
                f"{parts[0].shape[1]} before; its output must have one size"
            )
        parts.append(part)
    return np.concatenate(parts)
