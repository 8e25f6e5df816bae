"""Make the Flowers-102 dataset of results/ in its official layout from a copy sorted into class folders.

    python results/reality_check/flowers102.py IMAGES OUT [--side 256]

Writes ``OUT/jpg`` with every image reduced to a shorter side of 256 pixels (never enlarged), and
``OUT/imagelabels.mat``. ``IMAGES`` is searched for files with the official names (image_00001.jpg ...) in all
subdirectories. The name of a file's folder is its class, 1 to 102.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from scipy.io import savemat

from cars196 import shrink


def main() -> None:
    """Read the command line and write the dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    files = {int(path.stem.removeprefix("image_")): path for path in options.images.rglob("image_*.jpg")}
    missing = sorted(set(range(1, max(files, default=0) + 1)) - set(files))
    if not files or missing:
        parser.error(f"{len(files)} images in {options.images}; missing numbers: {missing[:10]}")
    target = options.out / "jpg"
    target.mkdir(parents=True, exist_ok=True)
    ordered = [files[number] for number in sorted(files)]
    with ProcessPoolExecutor(options.processes) as pool:
        for _ in pool.map(partial(shrink, out=target, side=options.side), ordered, chunksize=64):
            pass
    labels = np.array([int(path.parent.name) for path in ordered], dtype=np.uint8)
    savemat(str(options.out / "imagelabels.mat"), {"labels": labels[None, :]})
    print(f"{len(labels)} images of {len(np.unique(labels))} classes")


if __name__ == "__main__":
    main()
