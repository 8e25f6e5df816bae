"""Tiny generated datasets in the official layouts."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat


def draw_image(file: Path, seed: int, size: tuple[int, int] = (12, 10)) -> None:
    """Write a JPEG or PNG of random blocks, different for each seed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    blocks = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(blocks).resize(size, Image.Resampling.NEAREST).save(file)


def cub200(root: Path, classes: int = 4, images: int = 3) -> Path:
    """CUB_200_2011 below ``root``."""
    folder = root / "CUB_200_2011"
    names = [f"{n + 1:03}.Bird_{n}" for n in range(classes)]
    entries = [(n, f"{name}/{name}_{i:04}.jpg") for n, name in enumerate(names) for i in range(images)]
    for seed, (_, path) in enumerate(entries):
        draw_image(folder / "images" / path, seed)
    _lines(folder / "images.txt", [f"{k + 1} {path}" for k, (_, path) in enumerate(entries)])
    _lines(folder / "image_class_labels.txt", [f"{k + 1} {n + 1}" for k, (n, _) in enumerate(entries)])
    _lines(folder / "classes.txt", [f"{n + 1} {name}" for n, name in enumerate(names)])
    _lines(folder / "train_test_split.txt", [f"{k + 1} {k % 2}" for k in range(len(entries))])
    return folder


def cars196(root: Path, classes: int = 4, images: int = 3) -> Path:
    """car_ims and cars_annos.mat in ``root / cars196``; labels are not in the order of the files."""
    folder = root / "cars196"
    kind = [(name, object) for name in ("relative_im_path", "bbox_x1", "class", "test")]
    annotations = np.zeros((1, classes * images), dtype=kind)
    for k in range(classes * images):
        path = f"car_ims/{k + 1:06}.jpg"
        draw_image(folder / path, k)
        annotations[0, k] = (path, 1, k % classes + 1, k % 2)
    names = np.array([f"Maker Model {n}" for n in range(classes)], dtype=object)
    savemat(folder / "cars_annos.mat", {"annotations": annotations, "class_names": names})
    return folder


def flowers102(root: Path, images: int = 2) -> Path:
    """Write jpg/ and imagelabels.mat into ``root / flowers-102``; all classes, not in the order of files."""
    folder = root / "flowers-102"
    labels = [k % 102 + 1 for k in range(102 * images)]
    for k in range(len(labels)):
        draw_image(folder / f"jpg/image_{k + 1:05}.jpg", k)
    savemat(folder / "imagelabels.mat", {"labels": np.array([labels], dtype=np.uint8)})
    return folder


def sop(root: Path, train: int = 3, test: int = 2, images: int = 2) -> Path:
    """Stanford_Online_Products below ``root``."""
    folder = root / "Stanford_Online_Products"
    number = 0
    for part, products in (("train", range(1, train + 1)), ("test", range(train + 1, train + test + 1))):
        lines = ["image_id class_id super_class_id path"]
        for product in products:
            for view in range(images):
                number += 1
                path = f"chair_final/{product:04}_{view}.JPG"
                draw_image(folder / path, number)
                lines.append(f"{number} {product} 1 {path}")
        _lines(folder / f"Ebay_{part}.txt", lines)
    return folder


def inshop(root: Path) -> Path:
    """Two items to train, two to test with one query and two gallery images each."""
    folder = root / "inshop"
    rows = [(f"id_{n:08}", status) for n in (1, 4) for status in ("train", "train")]
    rows += [(f"id_{n:08}", status) for n in (2, 3) for status in ("query", "gallery", "gallery")]
    lines = [str(len(rows)), "image_name item_id evaluation_status"]
    for k, (item, status) in enumerate(rows):
        path = f"img/WOMEN/Dresses/{item}/{k:02}_front.jpg"
        draw_image(folder / path, k)
        lines.append(f"{path:60} {item} {status}")
    _lines(folder / "Eval" / "list_eval_partition.txt", lines)
    return folder


def gldv2(root: Path) -> Path:
    """Three landmarks to train (one left out of the clean list), three in the index, four queries."""
    folder = root / "gldv2"

    def image(part: str, k: int) -> str:
        name = f"{part[0]}{k:015x}".replace("t", "a").replace("i", "b")
        draw_image(folder / part / name[0] / name[1] / name[2] / f"{name}.jpg", 100 * len(part) + k)
        return name

    train = [(image("train", k), k // 2 + 70) for k in range(6)]
    index = [(image("index", k), k // 2) for k in range(6)]
    queries = [image("test", k + 50) for k in range(4)]
    _lines(folder / "train.csv", ["id,url,landmark_id"] + [f"{i},http://x/{i},{n}" for i, n in train])
    clean = [f"{n},{train[2 * k][0]} {train[2 * k + 1][0]}" for k, n in enumerate((70, 71))]
    _lines(folder / "train_clean.csv", ["landmark_id,images", *clean])
    _lines(folder / "index_image_to_landmark.csv", ["id,landmark_id"] + [f"{i},{n}" for i, n in index])
    relevant = [
        f"{index[0][0]} {index[1][0]}",
        f"{index[4][0]} {index[5][0]} {index[2][0]}",
        "None",
        index[3][0],
    ]
    usage = ["Public", "Private", "Ignored", "Private"]
    solution = [f"{q},{r},{u}" for q, r, u in zip(queries, relevant, usage, strict=True)]
    _lines(folder / "retrieval_solution_v2.1.csv", ["id,images,Usage", *solution])
    return folder


def _lines(file: Path, lines: list[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")


def revisited(root: Path, name: str = "roxford5k", *, images: int = 12, protocol: int = 2) -> Path:
    """Three queries of two buildings, with easy, hard and junk images in each form that pickles have."""
    folder = root / name
    searched = [f"all_{n:06}" for n in range(images)]
    asked = ["tower_000001", "tower_000002", "gate_000003"]
    for seed, image in enumerate(searched + asked):
        draw_image(folder / "jpg" / f"{image}.jpg", seed, (40, 30))
    box = [1.2, 2.0, 30.6, 28.0]
    truth = [
        {"bbx": box, "easy": np.array([0, 1]), "hard": [2], "junk": np.array([3], dtype=np.int32)},
        {"bbx": box, "easy": [], "hard": np.array([4, 5]), "junk": []},
        {"bbx": [np.float64(0), -3.0, 99.0, 99.0], "easy": [7], "hard": [], "junk": [8, 9]},
    ]
    content = {"gnd": truth, "imlist": searched, "qimlist": asked}
    with (folder / f"gnd_{name}.pkl").open("wb") as stream:
        pickle.dump(content, stream, protocol=protocol)
    return folder
