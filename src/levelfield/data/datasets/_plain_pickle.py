"""Reader of pickle files of lists, dictionaries, numbers, texts and arrays of numbers; it runs no code.

Pickles are programs: reading one with Python's own reader may run anything. The ground truth of some
benchmarks is published as a pickle. This reader refuses every name in the file except the few with which
NumPy writes arrays, and these stand for functions below, which only make arrays of numbers from bytes.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np

from levelfield.core.errors import UsageError

MAX_BYTES = 256 << 20
# Buffers outside of the file, extensions and persistent names have no place in plain data; a bytearray makes
# the reader reserve memory before it reads.
_REFUSED = {
    *("BYTEARRAY8", "NEXT_BUFFER", "READONLY_BUFFER", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID"),
    *("INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"),
}
_KINDS = "biuf"  # truth values, whole numbers and fractions


def read_plain_pickle(file: Path) -> Any:
    """Return the content of a pickle of plain data and arrays of numbers.

    Raises:
        UsageError: The file is damaged, too large, or holds anything else.
    """
    try:
        if not file.is_file():
            raise UsageError(f"{file} is not a regular file; fetch it again")
        if file.stat().st_size > MAX_BYTES:
            raise UsageError(f"{file} is larger than {MAX_BYTES >> 20} MB; fetch it again")
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}; fetch it again") from error
    try:
        for opcode, _, _ in pickletools.genops(content):
            if opcode.name in _REFUSED:
                raise pickle.UnpicklingError(f"it uses {opcode.name}")
        return _PlainReader(content).load()
    except (RecursionError, MemoryError, Exception) as error:  # a damaged file can raise any error
        reason = " ".join(f"{error or type(error).__name__}".split())[:200]
        raise UsageError(
            f"{file} is not a pickle of lists, texts and numbers ({reason}); it was not read further, since "
            "pickles can run code: fetch it again from the publisher"
        ) from error


class _Budget:
    """Bytes that a file may still make: a short one can make the same text or array again and again."""

    def __init__(self) -> None:
        self._left = MAX_BYTES

    def spend(self, size: int) -> None:
        """Count bytes; raise UnpicklingError if there are too many."""
        self._left -= size
        if self._left < 0:
            raise pickle.UnpicklingError(f"it makes more than {MAX_BYTES >> 20} MB")


class _Numbers:
    """Stand-in for an array that is being read."""

    def __init__(self, budget: _Budget) -> None:
        self._budget = budget
        self.array: np.ndarray[Any, Any] = np.zeros(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, content = state
        if isinstance(content, str):  # written by Python 2
            content = content.encode("latin1")
        if not isinstance(dtype, _Dtype) or not isinstance(content, bytes):
            raise pickle.UnpicklingError("an array of something else than numbers")
        self._budget.spend(len(content))
        flat = np.frombuffer(content, dtype=dtype.dtype)
        if not len(shape) or not flat.size:  # an empty one may claim a billion empty rows
            shape = (flat.size,)
        self.array = flat.reshape(tuple(map(int, shape)), order="F" if fortran else "C").copy()

    def tolist(self) -> Any:
        """Return the numbers as lists."""
        return self.array.tolist()

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Any:
        return iter(self.array.tolist())


class _Dtype:
    """Stand-in for the type of an array."""

    def __init__(self, text: Any, *_: Any) -> None:
        name = text.decode("latin1") if isinstance(text, bytes) else text
        if not isinstance(name, str) or len(name) > 4:
            raise pickle.UnpicklingError("an array of something else than numbers")
        self.dtype = np.dtype(name)
        if self.dtype.kind not in _KINDS:
            raise pickle.UnpicklingError("an array of something else than numbers")

    def __setstate__(self, state: Any) -> None:
        order = state[1]
        order = order.decode("latin1") if isinstance(order, bytes) else order
        if order == ">":
            self.dtype = self.dtype.newbyteorder(">")


def _scalar(dtype: Any, content: Any) -> Any:
    if isinstance(content, str):
        content = content.encode("latin1")
    if not isinstance(dtype, _Dtype) or not isinstance(content, bytes):
        raise pickle.UnpicklingError("a number of an unknown type")
    return np.frombuffer(content, dtype=dtype.dtype)[0].item()


# The reader in Python, not that in C: it never reserves memory for numbers that a hostile file names.
class _PlainReader(pickle._Unpickler):
    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content), encoding="latin1")
        budget = _Budget()

        def encode(text: Any, encoding: Any = "latin1") -> bytes:
            if encoding != "latin1" or not isinstance(text, str):
                raise pickle.UnpicklingError("a text in an unknown encoding")
            budget.spend(len(text))
            return text.encode("latin1")

        def reconstruct(*_: Any) -> _Numbers:
            return _Numbers(budget)

        self._names: dict[tuple[str, str], Any] = {
            ("numpy", "ndarray"): "numpy.ndarray",  # only an argument of the function below
            ("numpy", "dtype"): _Dtype,
            ("_codecs", "encode"): encode,
            **{(f"numpy.{core}.multiarray", "_reconstruct"): reconstruct for core in ("core", "_core")},
            **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
        }

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for a name; refuse all others."""
        if (module, name) not in self._names:
            raise pickle.UnpicklingError(f"it names {module}.{name}"[:100])
        return self._names[module, name]
