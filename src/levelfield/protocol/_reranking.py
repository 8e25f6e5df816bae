"""What re-ranking does to a method's scores: the model of its first fold, with and without.

Parameters are chosen on the fold's validation classes, by the model that did not train on them, and never on
the test set. Intervals draw the test classes anew.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor

from levelfield.data import GALLERY, QUERY, Dataset, Rows
from levelfield.records import Estimated, Reranked
from levelfield.rerank import Pictures, compare_rerankers


def reranked(
    names: tuple[str, ...], test: Dataset, embeddings: Tensor, validation: Tensor, validation_labels: Rows
) -> tuple[Reranked, ...]:
    """The plain ranking first, then each way of re-ranking in ``names``.

    Args:
        names: See ``levelfield.rerank.RERANKERS``.
        test: The test images.
        embeddings: Of all of them, by one model (n x d).
        validation: Embeddings of the validation images, by the same model.
        validation_labels: Their classes.
    """
    labels = torch.from_numpy(np.asarray(test.labels))
    if test.roles is None:
        pictures = Pictures(embeddings, labels)
    else:
        query = torch.from_numpy((test.roles & QUERY) > 0)
        gallery = torch.from_numpy((test.roles & GALLERY) > 0)
        pictures = Pictures(embeddings[query], labels[query], embeddings[gallery], labels[gallery])
    apart = int(labels.max()) + 1  # test and development number their classes each for itself
    others = Pictures(validation, torch.from_numpy(np.asarray(validation_labels)) + apart)
    return tuple(
        Reranked(
            name=effect.name,
            parameters=effect.parameters,
            validation_gain=effect.development_gain,
            scores={metric: Estimated(**asdict(found)) for metric, found in effect.scores.items()},
            gains={metric: Estimated(**asdict(found)) for metric, found in effect.gains.items()},
        )
        for effect in compare_rerankers(pictures, others, names=names)
    )
