"""Make the Cars196 dataset of results/ from a copy of its images that may be incomplete.

    python results/reality_check/cars196.py IMAGES cars_annos.mat OUT [--side 256]

Writes ``OUT/car_ims`` with every image reduced to a shorter side of 256 pixels (never enlarged), and
``OUT/cars_annos.mat`` without the missing images, and prints their names. ``IMAGES`` is searched for files
with the official names (000001.jpg ...), in all subdirectories.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import loadmat, savemat


def shrink(source: Path, out: Path, *, side: int) -> None:
    """Write ``source`` into ``out`` as an RGB JPEG whose shorter side is at most ``side``."""
    with Image.open(source) as opened:
        image = opened.convert("RGB")
    scale = side / min(image.size)
    if scale < 1:
        size = (round(image.width * scale), round(image.height * scale))
        image = image.resize(size, Image.Resampling.BICUBIC)
    image.save(out / source.name, quality=92)


def main() -> None:
    """Read the command line and write the dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=Path)
    parser.add_argument("annotations", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    content = loadmat(str(options.annotations))
    entries = content["annotations"][0]
    names = [Path(str(entry["relative_im_path"][0])).name for entry in entries]
    files = {path.name: path for path in options.images.rglob("*.jpg")}
    missing = [name for name in names if name not in files]
    target = options.out / "car_ims"
    target.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.processes) as pool:
        sources = [files[name] for name in names if name in files]
        for _ in pool.map(partial(shrink, out=target, side=options.side), sources, chunksize=64):
            pass
    kept = entries[np.array([name in files for name in names])]
    savemat(
        str(options.out / "cars_annos.mat"),
        {"annotations": kept[None, :], "class_names": content["class_names"]},
    )
    print(f"{len(kept)} images, {len(missing)} missing: {', '.join(missing)}")


if __name__ == "__main__":
    main()
