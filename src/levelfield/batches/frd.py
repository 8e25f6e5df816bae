"""Frechet distance matching: batches with the mean and the covariance of the data."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from levelfield.batches import register
from levelfield.batches._embedded import Embeddings
from levelfield.batches._matching import MatchingSampler, Scores
from levelfield.data._dataset import Rows


def frechet_distances(points: Embeddings, batches: Rows) -> Scores:
    """Frechet distance between the normal distributions of each batch and of the whole set.

    It is |m - m*|^2 + tr(S + S* - 2 (S S*)^(1/2)). No matrix square root is needed: with the centred points
    A and Z, scaled so that S = A'A and S* = Z'Z = R'R (R from a QR decomposition, once), the eigenvalues of
    S S* are the squared singular values of A R', so the trace of the root is the sum of the singular values.

    Args:
        points: The whole set, P x D.
        batches: Numbers of points, m x b, b > 1.

    Returns:
        One distance per batch, (m,).

    Example:
        >>> points = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0]], dtype=np.float32)
        >>> frechet_distances(points, np.array([[0, 1, 2, 3]])).round(6).tolist()
        [0.0]
    """
    mean, whole = _centred(points)
    root = np.linalg.qr(whole).R
    means, parts = _centred(points[batches])
    cross = parts @ root.T
    # The squared singular values from the smaller Gram matrix: eigenvalues are several times cheaper.
    gram = cross @ cross.swapaxes(1, 2) if cross.shape[1] <= cross.shape[2] else cross.swapaxes(1, 2) @ cross
    shared = np.sqrt(np.linalg.eigvalsh(gram).clip(min=0)).sum(axis=1)
    traces = np.square(parts).sum(axis=(1, 2)) + np.square(whole).sum()
    gaps: Scores = np.square(means - mean).sum(axis=(1, 2)) + traces - 2 * shared
    return gaps


def _centred(points: Embeddings) -> tuple[Scores, Scores]:
    """Mean, and deviations scaled so that their Gram matrix is the (unbiased) covariance; in float64."""
    precise = points.astype(np.float64)
    mean = precise.mean(axis=-2, keepdims=True)
    return mean, (precise - mean) / np.sqrt(max(points.shape[-2] - 1, 1))


@register(
    "frd",
    needs_bank=True,
    paper="Revisiting Training Strategies and Generalization Performance in Deep Metric Learning",
    year=2020,
)
class FrechetMatching(MatchingSampler):
    """FRD: of m random batches the one nearest to the candidate set by Frechet distance.

    Args:
        labels: Class of each training sample, (n,).
        batch_size: b, the rows of every batch; the paper's is 112.
        seed: Of the candidate sets and batches.
        samples_per_class: Batches are made of so many samples of a class at a time; 1 ignores classes.
        candidate_set: b*, how many samples to choose from.
        num_candidates: m.

    Example:
        >>> from levelfield.batches.memory_bank import MemoryBank
        >>> sampler, bank = FrechetMatching([0, 0, 1, 1], batch_size=2, seed=0), MemoryBank(4, 8)
        >>> sampler.attach(bank)
        >>> len(next(sampler.epoch(0)))
        2
    """

    def __init__(
        self,
        labels: npt.ArrayLike,
        *,
        batch_size: int,
        seed: int,
        samples_per_class: int = 2,
        candidate_set: int = 1024,
        num_candidates: int = 10,
    ) -> None:
        super().__init__(
            "frd",
            labels,
            frechet_distances,
            batch_size=batch_size,
            seed=seed,
            samples_per_class=samples_per_class,
            candidate_set=candidate_set,
            num_candidates=num_candidates,
        )
