"""Parquet files, read in small batches: a file of some kilobytes may hold a billion numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from levelfield.core.errors import UsageError

MOST_UNPACKED, MOST_RATIO = 1 << 28, 100  # bytes; embeddings never shrink this much
BATCH = 1024  # rows


def read_table(file: Path) -> Any:
    """Return the pyarrow table of a file; text is kept as a dictionary, each distinct one once.

    Raises:
        UsageError: pyarrow is missing, or the file is damaged or unpacks to far more than its size.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError("parquet files need pyarrow; pip install 'levelfield[parquet]'") from error
    limit = max(MOST_UNPACKED, MOST_RATIO * file.stat().st_size)
    try:
        with parquet.ParquetFile(file) as plain:
            text = [field.name for field in plain.schema_arrow if _is_text(pa.types, field.type)]
        with parquet.ParquetFile(file, read_dictionary=text) as source:
            names = source.schema_arrow.names
            if len(set(names)) < len(names):
                raise UsageError(f"{file} has two columns of one name; rename one")
            is_nested = any(pa.types.is_nested(kind) for kind in source.schema_arrow.types)
            _check_size(file, _claimed_size(source.metadata, is_nested=is_nested), limit)
            batches, size = [], 0
            for batch in source.iter_batches(batch_size=BATCH):
                size += batch.nbytes
                _check_size(file, size, limit)
                batches.append(batch)
            table = pa.Table.from_batches(batches, source.schema_arrow)
            table.validate(full=True)  # rows of a damaged file may name texts that are not there
            return table
    except UsageError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"{file} is not a parquet file: {reason}; export it again") from error


def _is_text(types: Any, kind: Any) -> bool:
    return any(check(kind) for check in (types.is_string, types.is_binary, types.is_large_string))


def _claimed_size(metadata: Any, *, is_nested: bool) -> int:
    """Return the size of all numbers of the file, in bytes."""
    rows = 8 * int(metadata.num_rows) * int(metadata.num_columns)
    if not is_nested:  # pyarrow ends the process at some damaged descriptions of columns
        return rows
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    listed = sum(group.column(n).num_values for group in groups for n in range(group.num_columns))
    return max(8 * int(listed), rows)


def _check_size(file: Path, size: int, limit: int) -> None:
    if size > limit:
        raise UsageError(f"{file} unpacks to {size:,} bytes or more; save it without compression")


def as_list(column: Any, file: Path) -> list[Any]:
    """Return the values of a column of labels or names; refuse a long text that stands in many rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        texts = [chunk.dictionary for chunk in column.chunks if len(chunk.dictionary)]
        if texts and not pa.types.is_nested(column.type.value_type):
            longest = max(pc.max(pc.binary_length(text)).as_py() or 0 for text in texts)
            _check_size(file, longest * len(column), max(MOST_UNPACKED, MOST_RATIO * file.stat().st_size))
    try:
        found: list[Any] = column.to_pylist()
    except (ValueError, IndexError) as error:
        raise UsageError(f"{file} cannot be read: {error}; save numbers or text in UTF-8") from error
    if any(isinstance(value, (list, dict)) for value in found):
        raise UsageError(f"{file} has lists as labels or names; give one value per row")
    return found


def numbers_of_lists(column: Any) -> np.ndarray[Any, Any]:
    """Return a column of lists as rows of numbers; raise ValueError if the lists differ in length."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(column) or not (pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)):
        return np.array(column.to_pylist(), dtype=np.float64)
    lengths = set(pc.unique(pc.list_value_length(column)).to_pylist())
    if len(lengths) != 1 or None in lengths:
        raise ValueError("lists differ in length")
    return np.asarray(pc.list_flatten(column).to_numpy(), dtype=np.float64).reshape(len(column), -1)
