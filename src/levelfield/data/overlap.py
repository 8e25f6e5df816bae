"""Classes that may be the same on both sides of the train/test border, under two names.

After RGLDv2-clean (arXiv 2404.01524): landmarks of the test sets were found among the training classes, and
leaving them out changed the ranking of methods.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from levelfield.data._dataset import Rows

BLOCK = 1024  # test images whose similarities are in memory at once


@dataclass(frozen=True)
class Overlap:
    """A test class that looks like one training class.

    Attributes:
        test: Id of the test class.
        train: Id of the training class.
        share: Of the test class's images, how many have their nearest image in the training class, nearer
            than any other image of their own class.
        similarity: Mean cosine of those images to their nearest one.
        example: Rows of the most alike pair: (test image, training image).
    """

    test: int
    train: int
    share: float
    similarity: float
    example: tuple[int, int]


def overlapping_classes(
    features: npt.NDArray[np.float32], labels: Rows, is_test: npt.NDArray[np.bool_], *, share: float = 0.5
) -> list[Overlap]:
    """Test classes of which at least ``share`` of the images belong, by their looks, to one training class.

    Args:
        features: float array (N, D) of a pretrained network.
        labels: int64 array (N,).
        is_test: bool array (N,).
        share: From which on a pair of classes is named; the surest first.

    Example:
        >>> features = np.array([[1, 0], [1, 0.1], [0, 1], [1, 0.05], [0.4, 1.0]], dtype=np.float32)
        >>> labels, is_test = np.array([0, 0, 1, 2, 2]), np.array([False, False, False, True, True])
        >>> found = overlapping_classes(features, labels, is_test)
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
                Overlap(
                    test=int(test),
                    train=int(train),
                    share=float(alike.sum() / members.sum()),
                    similarity=float(similarity[alike].mean()),
                    example=(int(tests[top]), int(nearest[top])),
                )
            )
    return sorted(found, key=lambda pair: (-pair.share, -pair.similarity))
