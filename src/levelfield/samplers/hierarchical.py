"""Batches from a few super-classes, for datasets whose classes have a hierarchy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from levelfield.core.errors import UsageError
from levelfield.core.options import Size
from levelfield.core.seeds import numpy_generator
from levelfield.data import Rows
from levelfield.samplers._sampler import BatchSampler, check_labels, epoch_length
from levelfield.samplers._shuffling import ClassCycles, ShuffledCycle, group_rows


class Hierarchical(BatchSampler):
    """Batches of a few super-classes, with several classes of each: negatives are of the same kind.

    All super-classes are used equally often, as are the classes of a super-class and the samples of a class.
    A super-class with too few classes takes some of them again, with other samples if there are any.

    Args:
        labels: Class of each training sample, (n,).
        super_labels: Super-class of each training sample, (n,).
        batch_size: Rows per batch.
        seed: Seed; a batch depends on the seed and the epoch number.
        samples_per_class: Samples of each class.
        super_classes: Super-classes per batch; each contributes equally.

    Example:
        >>> labels, kinds = np.arange(16) // 2, np.arange(16) // 8
        >>> sampler = Hierarchical(labels, kinds, batch_size=4, seed=0, samples_per_class=2, super_classes=1)
        >>> len({int(kinds[row]) for row in next(sampler.epoch(0))})
        1
    """

    def __init__(
        self,
        labels: npt.ArrayLike,
        super_labels: npt.ArrayLike,
        *,
        batch_size: int,
        seed: int,
        samples_per_class: Size = 4,
        super_classes: Size = 2,
    ) -> None:
        classes, kinds = check_labels(labels), check_labels(super_labels)
        if len(classes) != len(kinds):
            raise UsageError(
                f"hierarchical: {len(classes)} labels, but {len(kinds)} super_labels; give one of each "
                "per sample"
            )
        block = samples_per_class * super_classes
        if batch_size < block or batch_size % block:
            raise UsageError(
                f"hierarchical: batch_size {batch_size} is not a multiple of samples_per_class x "
                f"super_classes ({block}); set batch_size to {max(batch_size // block, 1) * block}"
            )
        # A class is a pair of super-class and label, so equal labels of two super-classes are two classes.
        found, class_of = np.unique(np.stack([kinds, classes]), axis=1, return_inverse=True)
        self._rows_of_class = group_rows(class_of.ravel().astype(np.int64))
        self._classes_of_kind = group_rows(found[0])
        if len(self._classes_of_kind) < super_classes:
            raise UsageError(
                f"hierarchical: a batch needs {super_classes} super-classes, but the training set has "
                f"{len(self._classes_of_kind)}; lower super_classes"
            )
        self.num_samples, self.batch_size = len(classes), batch_size
        self._kinds, self._samples, self._seed = super_classes, samples_per_class, seed

    def epoch(self, number: int, iterations: int | None = None) -> Iterator[Rows]:
        """Yield the batches of epoch ``number``; see :meth:`levelfield.samplers.BatchSampler.epoch`."""
        random = numpy_generator(self._seed, "hierarchical", number)
        kinds = ShuffledCycle(np.arange(len(self._classes_of_kind)), random)
        classes = ClassCycles(self._classes_of_kind, random)
        rows = ClassCycles(self._rows_of_class, random)
        each = self.batch_size // (self._kinds * self._samples)
        for _ in range(epoch_length(self.num_samples, self.batch_size, iterations)):
            chosen = [classes.take(int(kind), each) for kind in kinds.take(self._kinds)]
            yield np.concatenate([rows.take(int(one), self._samples) for one in np.concatenate(chosen)])
