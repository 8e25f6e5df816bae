"""Make the Cars196 folder of results/ from a copy of its pictures that may lack some.

    python tools/reality_check/cars196.py PICTURES cars_annos.mat OUT [--side 256]

Writes ``OUT/car_ims`` with every picture reduced to a shorter side of 256 pixels (never enlarged), and
``OUT/cars_annos.mat`` without the entries whose pictures are missing, and names those. ``PICTURES`` is
searched for files by their official names (000001.jpg ...), in whatever folders they lie.
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
    with Image.open(source) as picture:
        image = picture.convert("RGB")
    scale = side / min(image.size)
    if scale < 1:
        size = (round(image.width * scale), round(image.height * scale))
        image = image.resize(size, Image.Resampling.BICUBIC)
    image.save(out / source.name, quality=92)


def main() -> None:
    """Read the command line and make the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pictures", type=Path)
    parser.add_argument("annotations", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    content = loadmat(str(options.annotations))
    entries = content["annotations"][0]
    names = [Path(str(entry["relative_im_path"][0])).name for entry in entries]
    there = {path.name: path for path in options.pictures.rglob("*.jpg")}
    missing = [name for name in names if name not in there]
    images = options.out / "car_ims"
    images.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.processes) as pool:
        sources = [there[name] for name in names if name in there]
        for _ in pool.map(partial(shrink, out=images, side=options.side), sources, chunksize=64):
            pass
    kept = entries[np.array([name in there for name in names])]
    savemat(
        str(options.out / "cars_annos.mat"),
        {"annotations": kept[None, :], "class_names": content["class_names"]},
    )
    print(f"{len(kept)} pictures, {len(missing)} missing: {', '.join(missing)}")


if __name__ == "__main__":
    main()
