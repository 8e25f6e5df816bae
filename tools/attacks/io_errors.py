"""Attack an experiment with I/O errors: each kind of system call fails once, at every n-th call.

From the root of the repository::

    python -m tools.attacks.io_errors --attacks 60

Each attack must end in one clear line, or pass because the call does not matter. The same command is then
given again without errors, and its records must have the bits of an undisturbed run.
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.conftest import tiny_values

import levelfield as lf
from levelfield.core.errors import LevelfieldError

CALLS = [
    (os, "fsync"),
    (os, "replace"),
    (os, "rename"),
    (os, "open"),
    (io, "open"),
    (os, "unlink"),
    (os, "mkdir"),
]
ERRORS = [errno.EIO, errno.ESTALE, errno.EMFILE, errno.EDQUOT]


@contextmanager
def failing(owner: Any, name: str, number: int, code: int, root: Path) -> Iterator[list[int]]:
    """Let call ``number`` of a function on files below ``root`` fail; yield the count of calls."""
    real: Callable[..., Any] = getattr(owner, name)
    count = [0]

    def call(target: Any, *arguments: Any, **options: Any) -> Any:
        ours = name == "fsync" or str(target).startswith(str(root))
        if ours:
            count[0] += 1
            if count[0] == number:
                raise OSError(code, os.strerror(code), str(target))
        return real(target, *arguments, **options)

    setattr(owner, name, call)
    try:
        yield count
    finally:
        setattr(owner, name, real)


def values() -> dict[str, Any]:
    """Return a small experiment."""
    training = {"iterations_per_epoch": 2, "max_epochs": 2, "evaluate_every": 1, "patience": 3}
    small = {"methods": ["triplet"], "search": {"trials": 1, "sampler": "random"}, "training": training}
    return tiny_values() | small | {"confirm": {"reruns": 1, "gallery": 0}}


def bits(root: Path) -> dict[str, bytes]:
    """Return the files that must not depend on interruptions."""
    runs = ("runs/*/result.json", "runs/*/epochs.jsonl", "runs/*/best.safetensors", "searches/*/*.json")
    wanted = (*runs, "selections/*.json", "confirmations/*/*")
    return {str(file.relative_to(root)): file.read_bytes() for glob in wanted for file in root.glob(glob)}


def main() -> int:
    """Run the attacks and print the figures; return 1 if any fell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attacks", type=int, default=60)
    parser.add_argument("--first", type=int, default=0, help="leave out the attacks before this one")
    options = parser.parse_args()
    seen: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="levelfield-io-") as directory:
        home = Path(directory)
        lf.run(values(), home / "reference")
        reference = bits(home / "reference")
        totals = {}
        for owner, name in CALLS:
            with failing(owner, name, -1, 0, home / "count") as count:
                lf.run(values(), home / "count" / f"{owner.__name__}-{name}")
            totals[owner, name] = count[0]
        for attack in range(options.first, options.attacks):
            owner, name = CALLS[attack % len(CALLS)]
            code = ERRORS[attack // len(CALLS) % len(ERRORS)]
            number = 1 + (attack * 7919) % max(1, totals[owner, name])
            root = home / f"attack-{attack}"
            try:
                with failing(owner, name, number, code, root):
                    lf.run(values(), root)
                outcome = "passed"
            except LevelfieldError as error:
                outcome = "one clear line" if "\n" not in str(error) else "several lines"
            except Exception as error:
                outcome = f"raw {type(error).__name__}: {error}"
                print(
                    f"{owner.__name__}.{name} call {number}, {errno.errorcode[code]}: {outcome}", flush=True
                )
                outcome = "raw error"
            seen[outcome] += 1
            lf.run(values(), root)
            seen["continued with the same bits" if bits(root) == reference else "other bits"] += 1
            print(attack + 1, dict(seen), flush=True)
    return int(any(seen[bad] for bad in ("raw error", "several lines", "other bits")))


if __name__ == "__main__":
    sys.exit(main())
