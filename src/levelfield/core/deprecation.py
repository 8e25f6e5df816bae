"""Deprecation: old names stay accepted for a while, with a one-line warning."""

from __future__ import annotations

import warnings

REMOVED_IN = "0.4"


class LevelfieldDeprecationWarning(FutureWarning):
    """An old name was used; Python shows this warning to end users by default."""


def renamed_option(old: str, new: str, *, of: str) -> str:
    """Warn that an option or key has a new name, and return the new name.

    Args:
        old: Name that was used.
        new: Name to use instead.
        of: Owner of the option, such as ``method "triplet"``.

    Example:
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     renamed_option("bins", "num_bins", of='loss "fastap"')
        'num_bins'
        >>> str(caught[0].message)
        'loss "fastap": bins is now called num_bins; the old name works until version 0.4'
    """
    warnings.warn(
        f"{of}: {old} is now called {new}; the old name works until version {REMOVED_IN}",
        LevelfieldDeprecationWarning,
        stacklevel=3,
    )
    return new
