"""Queries and searched items with what is relevant, for the comparison of re-ranking methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelfield.metrics.files import EmbeddingFile


@dataclass(frozen=True, eq=False)
class RetrievalSet:
    """Query and gallery embeddings with labels.

    Attributes:
        queries: Unit vectors, Q x D.
        labels: Classes of the queries, int64 (Q,).
        gallery: Unit vectors, N x D. None: the queries are the gallery, each excluded from its own search.
        gallery_labels: Classes of the gallery, int64 (N,).
        relevant: Rows of the candidates that are relevant to each query; None if the class decides.
        ignored: Rows of the candidates that are neither right nor wrong for each query; None without any.
    """

    queries: Tensor
    labels: Tensor
    gallery: Tensor | None = None
    gallery_labels: Tensor | None = None
    relevant: Sequence[Any] | None = None
    ignored: Sequence[Any] | None = None

    @property
    def excludes_self(self) -> bool:
        """True if the queries are the gallery."""
        return self.gallery is None

    @property
    def candidates(self) -> Tensor:
        """Vectors that are searched: the gallery, or else the queries."""
        return self.queries if self.gallery is None else self.gallery

    @property
    def candidate_labels(self) -> Tensor:
        """Classes of the candidates."""
        return self.labels if self.gallery_labels is None else self.gallery_labels

    def replace_vectors(self, queries: Tensor, candidates: Tensor | None = None) -> RetrievalSet:
        """Return a copy with other vectors and the same labels."""
        gallery = None if self.gallery is None else candidates
        return replace(self, queries=queries, gallery=gallery)

    def select_classes(self, classes: Tensor) -> RetrievalSet:
        """Return the images of these classes only, without lists."""
        kept = torch.isin(self.labels, classes)
        if self.gallery is None or self.gallery_labels is None:
            return RetrievalSet(self.queries[kept], self.labels[kept])
        held = torch.isin(self.gallery_labels, classes)
        return RetrievalSet(
            self.queries[kept], self.labels[kept], self.gallery[held], self.gallery_labels[held]
        )


def retrieval_sets_from_files(
    queries: EmbeddingFile, gallery: EmbeddingFile | None, development: EmbeddingFile
) -> tuple[RetrievalSet, RetrievalSet]:
    """Return the data to score and the development data from embedding files with comparable labels."""
    given = [each for each in (queries, gallery, development) if each is not None]
    names = np.concatenate([np.asarray(each.labels).astype(str) for each in given])
    codes = torch.from_numpy(np.unique(names, return_inverse=True)[1].astype(np.int64))
    sizes = [len(each.embeddings) for each in given]
    labels = [codes[end - size : end] for size, end in zip(sizes, np.cumsum(sizes).tolist(), strict=True)]
    vectors = [torch.from_numpy(np.array(each.embeddings, dtype=np.float32)) for each in given]
    if gallery is None:
        return RetrievalSet(vectors[0], labels[0]), RetrievalSet(vectors[1], labels[1])
    return RetrievalSet(vectors[0], labels[0], vectors[1], labels[1]), RetrievalSet(vectors[2], labels[2])
