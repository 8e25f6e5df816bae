"""Classes that may be in both training and test under two names.

After RGLDv2-clean (arXiv 2404.01524), which found landmarks of the test sets among the training classes.
Removing them changed the ranking of methods.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from levelfield.data._dataset import Rows

BLOCK = 1024  # test images per block of similarities in memory


@dataclass(frozen=True)
class ClassOverlap:
    """Test class that looks like one training class.

    Attributes:
        test: Id of the test class.
        train: Id of the training class.
        share: Fraction of the test class's images whose nearest image is in the training class, nearer than
            any other image of their own class.
        similarity: Mean cosine similarity of those images to their nearest image.
        example: Rows of the most similar pair: (test image, training image).
    """

    test: int
    train: int
    share: float
    similarity: float
    example: tuple[int, int]


def find_overlapping_classes(
    features: npt.NDArray[np.float32], labels: Rows, is_test: npt.NDArray[np.bool_], *, share: float = 0.5
) -> list[ClassOverlap]:
    """Return test classes whose images are mostly nearer to one training class, highest share first.

    Args:
        features: float array (N, D), features of a pretrained network.
        labels: int64 array (N,).
        is_test: bool array (N,).
        share: Smallest fraction of a test class's images for a pair of classes to be returned.

    Example:
        >>> features = np.array([[1, 0], [1, 0.1], [0, 1], [1, 0.05], [0.4, 1.0]], dtype=np.float32)
        >>> labels, is_test = np.array([0, 0, 1, 2, 2]), np.array([False, False, False, True, True])
        >>> found = find_overlapping_classes(features, labels, is_test)
        >>> [(pair.test, pair.train, pair.share) for pair in found]
        [(2, 0, 0.5), (2, 1, 0.5)]
    """
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    tests, trains = np.flatnonzero(is_test), np.flatnonzero(~is_test)
    nearest, similarity = np.empty(len(tests), dtype=np.int64), np.empty(len(tests), dtype=np.float32)
    own = np.full(len(tests), -1.0, dtype=np.float32)
    for start in range(0, len(tests), BLOCK):
        rows = tests[start : start + BLOCK]
        across = unit[rows] @ unit[trains].T
        best = across.argmax(axis=1)
        nearest[start : start + BLOCK] = trains[best]
        similarity[start : start + BLOCK] = across[np.arange(len(rows)), best]
        for place, row in enumerate(rows, start):
            mates = tests[(labels[tests] == labels[row]) & (tests != row)]
            if len(mates):
                own[place] = (unit[mates] @ unit[row]).max()
    closer = similarity > own
    found = []
    for test in np.unique(labels[tests]):
        members = labels[tests] == test
        for train in np.unique(labels[nearest[members & closer]]):
            alike = members & closer & (labels[nearest] == train)
            if alike.sum() < share * members.sum():
                continue
            top = int(np.flatnonzero(alike)[similarity[alike].argmax()])
            found.append(
                ClassOverlap(
                    test=int(test),
                    train=int(train),
                    share=float(alike.sum() / members.sum()),
                    similarity=float(similarity[alike].mean()),
                    example=(int(tests[top]), int(nearest[top])),
                )
            )
    return sorted(found, key=lambda pair: (-pair.share, -pair.similarity))
