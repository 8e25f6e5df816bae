"""Cost of identifying a dataset by the content of its files: first opening, and later ones.

    python benchmarks/speed/hashing.py --images 60000 --kilobytes 50
    python benchmarks/speed/hashing.py --images 1000000 --kilobytes 4

Random files stand for images: hashing does not depend on what they show.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from levelfield.data import _content

FOLDERS = 200


def main() -> None:
    """Write the files, hash them twice, and print the seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--kilobytes", type=int, default=50)
    arguments = parser.parse_args()
    size = arguments.kilobytes * 1024
    with tempfile.TemporaryDirectory() as place:
        os.environ["LEVELFIELD_CACHE"] = f"{place}/cache"
        root = Path(place) / "images"
        paths = [f"{number % FOLDERS:03}/{number:07}.jpg" for number in range(arguments.images)]
        for folder in range(FOLDERS):
            (root / f"{folder:03}").mkdir(parents=True)
        block = bytearray(os.urandom(size))
        for number, path in enumerate(paths):
            block[:8] = number.to_bytes(8, "little")
            (root / path).write_bytes(block)
        time.sleep(_content.RECENT / 1e9)  # files that changed just now would not be remembered
        print(f"{len(paths):,} files of {arguments.kilobytes} KB, {len(paths) * size / 1e9:.1f} GB")
        for name in ("first opening", "second opening"):
            began, cpu = time.perf_counter(), time.process_time()
            found = _content.hash_files(root, paths)
            seconds, used = time.perf_counter() - began, time.process_time() - cpu
            rate = len(paths) / seconds
            print(f"{name}: {seconds:.1f} s ({used:.1f} s of CPU), {rate:,.0f} files per second", flush=True)
        assert len({digest.tobytes() for digest in found.digests}) == len(paths)
        memory = sum(file.stat().st_size for file in Path(place, "cache").rglob("*.npz"))
        print(f"memory of digests: {memory / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
