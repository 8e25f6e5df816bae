"""The contract of a batch sampler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from levelfield import batches
from levelfield.batches import BatchSampler
from levelfield.testing._report import raise_problems, watch_global_randomness

BATCH = 8
LABELS = np.repeat(np.arange(6), [4, 4, 5, 6, 7, 9])


@dataclass(frozen=True)
class _Sampler:
    make: Callable[[int], BatchSampler]

    def epoch(self, *, seed: int = 0, number: int = 0, iterations: int = 6) -> list[list[int]]:
        return [list(map(int, rows)) for rows in self.make(seed).epoch(number, iterations)]


def check_sampler(sampler: str | Callable[..., BatchSampler], **options: Any) -> None:
    """Check a batch sampler against the contract; AssertionError with everything that is wrong.

    An epoch has as many batches as asked for, each of exactly ``batch_size`` rows of the training set. It is
    a pure function of seed and epoch number: the same again when asked again, or in the middle of another
    sampler's life; another one for another seed or epoch. It draws from no global generator.

    Args:
        sampler: A registered name, or what makes the sampler from labels (n), ``batch_size`` and ``seed``.
            One that needs a memory bank must come as a function that attaches it.
        **options: Handed to the sampler.

    Example:
        >>> check_sampler("class_balanced", samples_per_class=2)
    """
    target = batches.registry[sampler].target if isinstance(sampler, str) else sampler
    subject = _Sampler(lambda seed: target(LABELS, batch_size=BATCH, seed=seed, **options))
    name = sampler if isinstance(sampler, str) else getattr(target, "__name__", str(target))
    raise_problems(f"batch sampler {name}", subject, [_shape, _pure, _varies, _whole_epoch])


def _shape(subject: _Sampler) -> Iterator[str]:
    """So many batches of so many rows."""
    drawn = subject.epoch(iterations=11)
    if len(drawn) != 11:
        yield f"asked for 11 batches it gives {len(drawn)}"
    if sizes := {len(rows) for rows in drawn} - {BATCH}:
        yield f"its batches have {sorted(sizes)} rows, not {BATCH}"
    if any(not 0 <= row < len(LABELS) for rows in drawn for row in rows):
        yield "it gives rows outside of the training set"


def _pure(subject: _Sampler) -> Iterator[str]:
    """A function of seed and epoch number."""
    problems: list[str] = []
    with watch_global_randomness(problems):
        first = subject.epoch(number=2)
    yield from problems
    if subject.epoch(number=2) != first:
        yield "the same seed and epoch give other batches the second time"
    used = subject.make(0)
    list(used.epoch(0, 3))
    list(islice(used.epoch(1, 6), 2))
    if [list(map(int, rows)) for rows in used.epoch(2, 6)] != first:
        yield "an epoch depends on the epochs drawn before it, so a resumed run would differ"


def _varies(subject: _Sampler) -> Iterator[str]:
    """Another seed or epoch, other batches."""
    first = subject.epoch()
    if subject.epoch(number=1) == first:
        yield "two epochs are the same"
    if subject.epoch(seed=1) == first:
        yield "two seeds give the same epoch"


def _whole_epoch(subject: _Sampler) -> Iterator[str]:
    """Without a number of iterations, about one pass over the data."""
    count = len(list(subject.make(0).epoch(0, None)))
    if count != len(LABELS) // BATCH:
        yield f"a whole epoch of {len(LABELS)} samples has {count} batches, not {len(LABELS) // BATCH}"
