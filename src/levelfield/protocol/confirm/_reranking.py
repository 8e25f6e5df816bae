"""Effect of re-ranking on a method's scores, for the model of its first fold.

Parameters are chosen on the fold's validation classes, on which the model was not trained, and never on the
test set. Intervals come from resampling the test classes.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import torch
from torch import Tensor

from levelfield.data import Dataset, Rows
from levelfield.records import RerankedScores, ScoreInterval
from levelfield.retrieval.rerank import RetrievalSet, compare_rerankers
from levelfield.retrieval.scoring import retrieval_set


def score_rerankers(
    names: tuple[str, ...], test: Dataset, embeddings: Tensor, validation: Tensor, validation_labels: Rows
) -> tuple[RerankedScores, ...]:
    """Return the scores of the plain ranking, then of each re-ranking in ``names``.

    Args:
        names: Keys of ``levelfield.retrieval.rerank.RERANKERS``.
        test: Test images.
        embeddings: Their embeddings by one model (n x d).
        validation: Embeddings of the validation images by the same model.
        validation_labels: Classes of the validation images.
    """
    test_set = retrieval_set(embeddings, test)
    offset = int(test.labels.max()) + 1  # test and development classes are both numbered from 0
    validation_set = RetrievalSet(validation, torch.from_numpy(np.asarray(validation_labels)) + offset)
    return tuple(
        RerankedScores(
            name=effect.name,
            parameters=effect.parameters,
            validation_gain=effect.development_gain,
            scores={metric: ScoreInterval(**asdict(found)) for metric, found in effect.scores.items()},
            gains={metric: ScoreInterval(**asdict(found)) for metric, found in effect.gains.items()},
        )
        for effect in compare_rerankers(test_set, validation_set, names=names)
    )
