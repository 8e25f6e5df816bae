"""Arrays of a scored rerun: one value per query, or one mean per class in an archive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from levelfield.core.errors import RunError
from levelfield.core.files import check_is_file
from levelfield.records._gallery import GALLERY_PREFIX

# Names of arrays.
SPECTRUM = "spectrum"  # singular values of the concatenated embeddings
CLASSES = "classes"  # class of each query; in an archive, each class once
QUERIES_PER_CLASS = "queries_per_class"  # in an archive: number of queries of each class


@contextmanager
def open_arrays(file: Path) -> Iterator[Any]:
    """Open the arrays of a rerun; raise RunError if the file is damaged."""
    try:
        check_is_file(file)
        with safe_open(file, framework="numpy") as tensors:
            yield tensors
    except (SafetensorError, OSError) as error:
        raise RunError(
            f"{file} is damaged ({error}); delete it and the .json file of the same name, "
            "then give the same `levelfield run` command again"
        ) from error


def class_means(arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays that verdicts are computed from: the mean of each metric per class.

    Queries without a score and arrays of the retrieval gallery are left out. Arrays that hold class means
    already, or that name no classes, are returned as they are.

    Example:
        >>> values = {"classes": np.array([3, 1, 3]), "separated.map_at_r": np.array([0.5, 1.0, 0.25])}
        >>> {key: means.tolist() for key, means in class_means(values).items()}
        {'classes': [1, 3], 'queries_per_class': [1, 2], 'separated.map_at_r': [1.0, 0.375]}
    """
    kept = {key: value for key, value in arrays.items() if not key.startswith(GALLERY_PREFIX)}
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
