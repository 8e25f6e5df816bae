"""Scores of embeddings on a dataset: by class or by its lists, with its queries and searched images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield import metrics
from levelfield.data import GALLERY, QUERY, Dataset
from levelfield.retrieval.rerank import RetrievalSet


def query_rows(dataset: Dataset) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the rows of the queries; all rows if the dataset has no roles."""
    return _rows_with(dataset, QUERY)


def _rows_with(dataset: Dataset, role: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    if dataset.roles is None:
        return np.arange(len(dataset))
    return np.flatnonzero(dataset.roles & role)


def dataset_lists(dataset: Dataset) -> tuple[list[Any] | None, list[Any] | None]:
    """Return the relevant and the ignored items of each query, counted among the searched images.

    A query that is also searched ignores itself. The first is None if the class decides what is relevant, the
    second if nothing is ignored.
    """
    lists = dataset.query_lists()
    relevant, ignored = (None, None) if lists is None else lists
    if dataset.roles is None:
        return relevant, ignored
    queries, searched = query_rows(dataset), _rows_with(dataset, GALLERY)
    own = np.searchsorted(searched, queries)
    held = np.isin(queries, searched)
    if held.any():
        base = [np.zeros(0, dtype=np.int64)] * len(queries) if ignored is None else ignored
        ignored = [
            np.union1d(items, [at]) if inside else items
            for items, at, inside in zip(base, own.tolist(), held.tolist(), strict=True)
        ]
        if relevant is not None:
            relevant = [
                np.setdiff1d(items, [at]) if inside else items
                for items, at, inside in zip(relevant, own.tolist(), held.tolist(), strict=True)
            ]
    return relevant, ignored


def score_dataset(embeddings: Tensor, dataset: Dataset, **options: Any) -> metrics.Scores:
    """Return the scores of the embeddings (N x D) of all images of a dataset.

    Args:
        embeddings: Embeddings, row by row.
        dataset: The images. Its roles say what is searched for what, its lists what is relevant.
        options: Options of :func:`levelfield.metrics.evaluate`, such as ``metrics``.

    Example:
        >>> from levelfield.data import from_arrays
        >>> pixels = np.zeros((4, 3, 2, 2), dtype=np.uint8)
        >>> images = from_arrays("blank", pixels, np.array([0, 0, 1, 1]), ["a", "b"])
        >>> score_dataset(torch.tensor([[1.0, 0], [1, 0.1], [0, 1], [0.1, 1]]), images)["precision_at_1"]
        1.0
    """
    labels = torch.from_numpy(dataset.labels)
    relevant, ignored = dataset_lists(dataset)
    if dataset.roles is None:
        return metrics.evaluate(embeddings, labels, relevant=relevant, ignore=ignored, **options)
    queries, searched = (torch.from_numpy(_rows_with(dataset, role)) for role in (QUERY, GALLERY))
    return metrics.evaluate(
        embeddings[queries],
        labels[queries],
        gallery=embeddings[searched],
        gallery_labels=labels[searched] if relevant is None else None,
        relevant=relevant,
        ignore=ignored,
        **options,
    )


def score_concatenation(
    embeddings: Sequence[Tensor], dataset: Dataset, **options: Any
) -> tuple[list[metrics.Scores], metrics.Scores]:
    """Return the scores of each model's embeddings of a dataset, and of their concatenation.

    The arguments are those of :func:`score_dataset`.
    """
    labels = torch.from_numpy(dataset.labels)
    relevant, ignored = dataset_lists(dataset)
    if dataset.roles is None:
        return metrics.evaluate_concatenation(
            embeddings, labels, relevant=relevant, ignore=ignored, **options
        )
    queries, searched = (torch.from_numpy(_rows_with(dataset, role)) for role in (QUERY, GALLERY))
    return metrics.evaluate_concatenation(
        [each[queries] for each in embeddings],
        labels[queries],
        galleries=[each[searched] for each in embeddings],
        gallery_labels=labels[searched] if relevant is None else None,
        relevant=relevant,
        ignore=ignored,
        **options,
    )


def retrieval_set(embeddings: Tensor, dataset: Dataset) -> RetrievalSet:
    """Return the embeddings (N x D) of a dataset as queries and searched images, for re-ranking."""
    labels = torch.from_numpy(dataset.labels)
    relevant, ignored = dataset_lists(dataset)
    if dataset.roles is None:
        return RetrievalSet(embeddings, labels, relevant=relevant, ignored=ignored)
    queries, searched = (torch.from_numpy(_rows_with(dataset, role)) for role in (QUERY, GALLERY))
    if relevant is None and ignored is not None:  # a query that is searched: its class, except itself
        relevant = [
            np.setdiff1d(np.flatnonzero(dataset.labels[searched.numpy()] == label), hidden)
            for label, hidden in zip(dataset.labels[queries.numpy()].tolist(), ignored, strict=True)
        ]
    return RetrievalSet(
        embeddings[queries],
        labels[queries],
        embeddings[searched],
        labels[searched],
        relevant=relevant,
        ignored=ignored,
    )
