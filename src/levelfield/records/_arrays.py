"""The arrays of a scored rerun: each query's values, or in an archive the mean of each class's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from levelfield.errors import RunError
from levelfield.records._gallery import LOOK

SPECTRUM = "spectrum"  # keys: singular values of the concatenated embeddings,
CLASSES = "classes"  # the class of each query, or each class once,
QUERIES_PER_CLASS = "queries_per_class"  # and then, how many queries a class mean stands for


@contextmanager
def open_arrays(file: Path) -> Iterator[Any]:
    """The arrays of a rerun; a damaged file is an error that names it and the remedy."""
    try:
        with safe_open(file, framework="numpy") as tensors:
            yield tensors
    except (SafetensorError, OSError) as error:
        raise RunError(
            f"{file} is damaged ({error}); delete it and the .json file of the same name, "
            "then give the same `levelfield run` command again"
        ) from error


def class_means(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """All that verdicts rest on: of each measure one value per class, the class being their unit.

    Queries that were not scored are left out, and so is what is only there to look at. Class means stay as
    they are, and so does a file that names no classes.

    Example:
        >>> values = {"classes": np.array([3, 1, 3]), "separated.map_at_r": np.array([0.5, 1.0, 0.25])}
        >>> {key: means.tolist() for key, means in class_means(values).items()}
        {'classes': [1, 3], 'queries_per_class': [1, 2], 'separated.map_at_r': [1.0, 0.375]}
    """
    kept = {key: value for key, value in arrays.items() if not key.startswith(LOOK)}
    per_query = {key: value for key, value in kept.items() if key not in (SPECTRUM, CLASSES)}
    if CLASSES not in kept or not per_query or QUERIES_PER_CLASS in kept:
        return kept
    scored = np.isfinite(np.stack(list(per_query.values()))).all(axis=0)
    classes, member = np.unique(kept[CLASSES][scored], return_inverse=True)
    counts = np.bincount(member, minlength=len(classes))
    kept |= {CLASSES: classes, QUERIES_PER_CLASS: counts}
    for key, values in per_query.items():
        kept[key] = np.bincount(member, weights=values[scored], minlength=len(classes)) / counts
    return dict(sorted(kept.items()))
