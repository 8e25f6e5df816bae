"""Contract of a batch sampler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from levelfield import samplers
from levelfield.samplers import BatchSampler
from levelfield.testing._run import Checks, find_plugins, run_checks, watch_global_randomness

BATCH = 8
LABELS = np.repeat(np.arange(6), [4, 4, 5, 6, 7, 9])


@dataclass(frozen=True)
class _Sampler:
    make: Callable[[int], BatchSampler]

    def epoch(self, *, seed: int = 0, number: int = 0, iterations: int = 6) -> list[list[int]]:
        return [list(map(int, rows)) for rows in self.make(seed).epoch(number, iterations)]


def check_sampler(sampler: str | Path | Callable[..., BatchSampler], **options: Any) -> None:
    """Check a batch sampler against its contract; print one line per check, raise AssertionError on problems.

    - An epoch has the requested number of batches, each with exactly ``batch_size`` rows of the training
      set.
    - An epoch depends only on the seed and the epoch number, not on earlier epochs. Other seeds and epochs
      give other batches. The sampler does not use global random generators.
    - Without a number of iterations, an epoch is one pass over the data.

    Args:
        sampler: Registered name, path of your Python file, or a class or function that makes the sampler
            from labels (n), ``batch_size`` and ``seed``. For a sampler that needs a memory bank, give a
            function that attaches it.
        **options: Options of the sampler.

    Example:
        >>> check_sampler("class_balanced", samples_per_class=2)
        batch sampler class_balanced
          ok: an epoch has the requested number and size of batches
          ...
    """
    checks: Checks[_Sampler] = {
        "an epoch has the requested number and size of batches": _shape,
        "an epoch depends only on the seed and the epoch number": _pure,
        "other seeds and epochs give other batches": _varies,
        "an epoch without a number of iterations is one pass over the data": _whole_epoch,
    }
    for plugin in find_plugins(samplers.registry, sampler):

        def make(seed: int, target: Callable[..., BatchSampler] = plugin.target) -> BatchSampler:
            return target(LABELS, batch_size=BATCH, seed=seed, **options)

        run_checks(f"batch sampler {plugin.name}", _Sampler(make), checks)


def _shape(subject: _Sampler) -> Iterator[str]:
    drawn = subject.epoch(iterations=11)
    if len(drawn) != 11:
        yield f"an epoch of 11 iterations has {len(drawn)} batches"
    if sizes := {len(rows) for rows in drawn} - {BATCH}:
        yield f"its batches have {sorted(sizes)} rows, not {BATCH}"
    if any(not 0 <= row < len(LABELS) for rows in drawn for row in rows):
        yield "it yields rows outside of the training set"


def _pure(subject: _Sampler) -> Iterator[str]:
    problems: list[str] = []
    with watch_global_randomness(problems):
        first = subject.epoch(number=2)
    yield from problems
    if subject.epoch(number=2) != first:
        yield "the same seed and epoch give different batches the second time"
    used = subject.make(0)
    list(used.epoch(0, 3))
    list(islice(used.epoch(1, 6), 2))
    if [list(map(int, rows)) for rows in used.epoch(2, 6)] != first:
        yield "an epoch depends on earlier epochs, so a resumed run would differ"


def _varies(subject: _Sampler) -> Iterator[str]:
    first = subject.epoch()
    if subject.epoch(number=1) == first:
        yield "two epochs are the same"
    if subject.epoch(seed=1) == first:
        yield "two seeds give the same epoch"


def _whole_epoch(subject: _Sampler) -> Iterator[str]:
    count = len(list(subject.make(0).epoch(0, None)))
    if count != len(LABELS) // BATCH:
        yield f"a whole epoch of {len(LABELS)} samples has {count} batches, not {len(LABELS) // BATCH}"
