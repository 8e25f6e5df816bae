"""Random draws over queries, made once for any number of methods: the engine of the paired tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from levelfield.errors import UsageError
from levelfield.seeds import numpy_generator

# How many numbers are held at once: bounds memory at about 100 MB for any number of queries.
BLOCK = 8_000_000


def bootstrap_means(values: NDArray[np.float64], *, resamples: int, seed: int) -> NDArray[np.float64]:
    """Means of ``values`` (n queries x k methods) over queries drawn with replacement (resamples x k).

    Every method sees the same draws, so differences of columns are differences of pairs.
    """
    check_draws("resamples", resamples)
    n = len(values)
    generator = numpy_generator("paired bootstrap", seed)
    means = []
    for start, stop in blocks(resamples, n):
        counts = np.empty((stop - start, n))
        for row in counts:
            row[:] = np.bincount(generator.integers(0, n, size=n, dtype=np.int32), minlength=n)
        means.append(counts @ values / n)
    return np.concatenate(means)


def flipped_sums(
    values: NDArray[np.float64], *, permutations: int, seed: int
) -> tuple[NDArray[np.float64], bool]:
    """Sums of ``values`` (n queries x k methods) with random signs (permutations x k).

    All 2^n patterns of signs are used instead where that is not more work; the flag says so.
    """
    check_draws("permutations", permutations)
    n = len(values)
    exact = n < 63 and 2**n <= permutations
    total = 2**n if exact else permutations
    generator = numpy_generator("paired permutation", seed)
    flipped = []
    for start, stop in blocks(total, n):
        flips = every_flip(start, stop, n) if exact else random_flips(generator, stop - start, n)
        flipped.append(flips @ values)
    sums: NDArray[np.float64] = values.sum(axis=0) - 2 * np.concatenate(flipped)
    return sums, exact


def every_flip(start: int, stop: int, n: int) -> NDArray[np.uint8]:
    """Rows ``start`` to ``stop`` of all 2^n patterns of n flips, as 0 and 1."""
    codes = np.arange(start, stop, dtype=np.int64)[:, None]
    return ((codes >> np.arange(n)) & 1).astype(np.uint8)


def random_flips(generator: np.random.Generator, rows: int, n: int) -> NDArray[np.uint8]:
    """``rows`` patterns of n fair coin tosses, the bits of whole random words.

    Whole 64-bit words leave nothing in the generator's buffer, so blocks of any size give the same tosses.
    """
    words = generator.integers(0, 2**64, size=(rows, -(-n // 64)), dtype=np.uint64)
    return np.unpackbits(words.view(np.uint8), axis=1, count=n)


def check_draws(name: str, draws: int) -> None:
    """Refuse fewer than 100 draws: the tails would be noise."""
    if draws < 100:
        raise UsageError(f"{name} must be at least 100, got {draws}")


def blocks(total: int, width: int) -> list[tuple[int, int]]:
    """Ranges that cover 0..total with at most BLOCK numbers of ``width`` each."""
    size = max(1, BLOCK // max(1, width))
    return [(start, min(start + size, total)) for start in range(0, total, size)]
