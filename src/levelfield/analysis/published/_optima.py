"""Hyperparameters and search ranges of papers, under the names of levelfield."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from levelfield.analysis.published._tables import check_known, read_table
from levelfield.core.errors import UsageError
from levelfield.core.space import Dimension, Float, Int, Value

DEFAULT_SOURCE = "reality-check"
INTEGER_PARAMETERS = frozenset({"num_bins", "centers"})


@dataclass(frozen=True)
class Optimum:
    """One published hyperparameter.

    ``value`` is in the unit of the loss in levelfield; it is None if the source prints "N/A".
    ``printed_name`` and ``printed`` are as printed. ``note`` describes conversions.
    """

    source: str
    table: str
    method: str
    variant: str
    dataset: str
    batch_size: int | None
    parameter: str
    value: Value | None
    printed_name: str
    printed: str
    note: str


@dataclass(frozen=True)
class SearchRange:
    """One published search range.

    Only the thesis has ``step`` and ``optimum``: it searched on a grid. ``printed`` is the range as printed.
    ``note`` explains bounds that are not printed clearly.
    """

    source: str
    method: str
    dataset: str
    batch_size: int | None
    parameter: str
    low: float
    high: float
    low_open: bool
    log: bool
    step: float | None
    optimum: float | None
    printed: str
    note: str


def optimum(
    method: str,
    dataset: str,
    *,
    batch: int | None = None,
    source: str = DEFAULT_SOURCE,
    variant: str = "",
) -> dict[str, Value]:
    """Return the published hyperparameters of a method on a dataset.

    Names are those of levelfield's losses. Miner options are ``miner.NAME``; ``loss_lr`` is the learning rate
    of the parameters of the loss. Values that the source prints as "N/A" are left out.

    Args:
        method: Name of the method in levelfield.
        dataset: "cub200", "cars196" or "sop".
        batch: Batch size: 32 or 256 for the reality check. Defaults to the smallest of the source.
        source: "reality-check", "revisiting", "deep-dive" or "deep-dive-fixed".
        variant: Empty for the best variant; "beta=0.6" or "beta=1.2" if Revisiting has a second one.

    Raises:
        UsageError: The source has no values for these arguments.

    Example:
        >>> optimum("triplet", "cub200"), optimum("triplet", "cub200", batch=256)
        ({'margin': 0.0961}, {'margin': 0.1368})
        >>> optimum("multi_similarity_miner", "cub200", source="deep-dive-fixed")
        {'base': 0.8, 'alpha': 18.0, 'beta': 76.0, 'miner.epsilon': 0.4}
    """
    rows = optima(source=source, method=method, dataset=dataset)
    if not rows:
        others = sorted({row.source for row in optima(method=method)})
        raise UsageError(
            f"{source} has no hyperparameters of {method} on {dataset}; "
            f"choose another source: {', '.join(others)}"
        )
    batches = sorted({row.batch_size for row in rows if row.batch_size is not None})
    usual = batches[0] if batches else None
    wanted_batch = usual if batch is None else batch
    variants = sorted({row.variant for row in rows})
    if variant not in variants:
        known = ", ".join(f'"{name}"' for name in variants)
        raise UsageError(f'{source} has no variant "{variant}" of {method}; choose from {known}')
    chosen = [row for row in rows if row.batch_size in (wanted_batch, None) and row.variant == variant]
    if not chosen:
        known = ", ".join(str(size) for size in batches)
        raise UsageError(f"{source} has no {method} on {dataset} with batch {batch}; choose from {known}")
    return {row.parameter: row.value for row in chosen if row.value is not None}


@cache
def all_optima() -> tuple[Optimum, ...]:
    """Return all published hyperparameters, in the order of the sources."""
    return tuple(
        Optimum(
            source=row["source"],
            table=row["table"],
            method=row["method"],
            variant=row["variant"],
            dataset=row["dataset"],
            batch_size=int(row["batch_size"]) if row["batch_size"] else None,
            parameter=row["parameter"],
            value=_parse_number(row["parameter"], row["value"]),
            printed_name=row["printed_name"],
            printed=row["printed"],
            note=row["note"],
        )
        for row in read_table("optima.csv")
    )


def optima(
    *, source: str | None = None, method: str | None = None, dataset: str | None = None
) -> list[Optimum]:
    """Return the published hyperparameters that match the filters.

    Example:
        >>> sorted({row.source for row in optima()})
        ['deep-dive', 'deep-dive-fixed', 'reality-check', 'revisiting']
    """
    found = list(all_optima())
    for field, wanted in (("source", source), ("method", method), ("dataset", dataset)):
        if wanted is not None:
            check_known(f"hyperparameters of {field}", wanted, {getattr(row, field) for row in all_optima()})
            found = [row for row in found if getattr(row, field) == wanted]
    return found


@cache
def all_ranges() -> tuple[SearchRange, ...]:
    """Return all published search ranges, in the order of the sources."""
    return tuple(
        SearchRange(
            source=row["source"],
            method=row["method"],
            dataset=row["dataset"],
            batch_size=int(row["batch_size"]) if row["batch_size"] else None,
            parameter=row["parameter"],
            low=float(row["low"]),
            high=float(row["high"]),
            low_open=row["low_open"] == "yes",
            log=row["log"] == "yes",
            step=float(row["step"]) if row["step"] else None,
            optimum=float(row["optimum"]) if row["optimum"] else None,
            printed=row["printed_range"],
            note=row["note"],
        )
        for row in read_table("ranges.csv")
    )


def ranges(*, source: str | None = None, method: str | None = None) -> list[SearchRange]:
    """Return search ranges: the grid of the thesis, and the ranges of the trials of the reality check.

    Example:
        >>> found = ranges(source="deep-dive-fixed", method="proxy_anchor")
        >>> [(r.parameter, r.low, r.high, r.step) for r in found]
        [('margin', 0.0, 1.0, 0.1), ('alpha', 0.0, 100.0, 2.0)]
    """
    return [r for r in all_ranges() if source in (None, r.source) and method in (None, r.method)]


def search_space(
    method: str, dataset: str, *, batch: int | None = None, source: str = DEFAULT_SOURCE
) -> dict[str, Dimension]:
    """Return the published search space of a method; empty if the source has none.

    If the source does not have the dataset or the batch size, the space of CUB200-2011 at the smallest batch
    size is returned.

    Args:
        method: Name of the method in levelfield.
        dataset: "cub200", "cars196" or "sop".
        batch: Batch size of the experiment.
        source: "reality-check".

    Example:
        >>> search_space("triplet", "cub200")
        {'margin': Float(low=-0.2, high=2.0, log=False, step=None)}
        >>> search_space("fastap", "cub200", batch=256)
        {'num_bins': Int(low=2, high=250, log=False, step=1)}
    """
    known = ranges(source=source, method=method)
    if not known:
        return {}
    usual = min(row.batch_size or 0 for row in known)
    for wanted in ((dataset, batch), (dataset, usual), ("cub200", usual)):
        rows = [row for row in known if (row.dataset, row.batch_size or 0) == wanted]
        if rows:
            break
    return {
        row.parameter: Int(int(row.low), int(row.high))
        if row.parameter in INTEGER_PARAMETERS
        else Float(row.low, row.high, log=row.log)
        for row in rows
    }


def _parse_number(parameter: str, text: str) -> Value | None:
    if not text:
        return None
    return int(text) if parameter in INTEGER_PARAMETERS else float(text)
