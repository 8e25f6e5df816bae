"""Make the Cars196 dataset of results/ from a copy of its images that may be incomplete.

    python results/reality_check/cars196.py IMAGES OUT [--annotations cars_annos.mat] [--side 256]

Writes ``OUT/car_ims`` with every image reduced to a shorter side of 256 pixels (never enlarged), and
``OUT/cars_annos.mat`` without the missing images, and prints their names. ``IMAGES`` is searched for files
with the official names (000001.jpg ...), in all subdirectories. Without the official annotations, the
directory of an image is its class: the official class ids are in the order of the first images.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import loadmat, savemat

OFFICIAL_IMAGES = 16185


def shrink(source: Path, out: Path, *, side: int) -> None:
    """Write ``source`` into ``out`` as an RGB JPEG whose shorter side is at most ``side``."""
    with Image.open(source) as opened:
        image = opened.convert("RGB")
    scale = side / min(image.size)
    if scale < 1:
        size = (round(image.width * scale), round(image.height * scale))
        image = image.resize(size, Image.Resampling.BICUBIC)
    image.save(out / source.name, quality=92)


def read_annotations(file: Path) -> tuple[list[str], list[int], list[str]]:
    """Return the names of all images, their class ids from 1, and the names of the classes."""
    content = loadmat(str(file))
    entries = content["annotations"][0]
    names = [Path(str(entry["relative_im_path"][0])).name for entry in entries]
    return (
        names,
        [int(entry["class"][0, 0]) for entry in entries],
        [str(c[0]) for c in content["class_names"][0]],
    )


def read_directories(files: dict[str, Path]) -> tuple[list[str], list[int], list[str]]:
    """Return what :func:`read_annotations` does, from images in directories of classes."""
    names = sorted(files)
    classes = list(dict.fromkeys(files[name].parent.name for name in names))
    ids = {name: k + 1 for k, name in enumerate(classes)}
    return names, [ids[files[name].parent.name] for name in names], classes


def main() -> None:
    """Read the command line and write the dataset."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--annotations", type=Path)
    parser.add_argument("--side", type=int, default=256)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    files = {path.name: path for path in options.images.rglob("*.jpg")}
    names, labels, classes = (
        read_annotations(options.annotations) if options.annotations else read_directories(files)
    )
    missing = sorted({f"{k:06}.jpg" for k in range(1, OFFICIAL_IMAGES + 1)} - set(files))
    target = options.out / "car_ims"
    target.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.processes) as pool:
        sources = [files[name] for name in names if name in files]
        for _ in pool.map(partial(shrink, out=target, side=options.side), sources, chunksize=64):
            pass
    kept = [(f"car_ims/{name}", label) for name, label in zip(names, labels, strict=True) if name in files]
    savemat(
        str(options.out / "cars_annos.mat"),
        {
            "annotations": np.array([kept], dtype=[("relative_im_path", object), ("class", object)]),
            "class_names": np.array([classes], dtype=object),
        },
    )
    print(f"{len(kept)} images, {len(missing)} missing: {', '.join(missing)}")


if __name__ == "__main__":
    main()
