"""Your own images: folders, tables, and the datasets of other libraries."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.oracles.layouts import draw_image

from levelfield.core.errors import RunError, UsageError
from levelfield.data import load, registry, splits


def test_folders_are_classes_and_may_keep_their_natural_order(tmp_path: Path) -> None:
    for k, name in enumerate(
        ["10 wolf/a.jpg", "2 fox/deep/b.PNG", "2 fox/a.jpg", "bear/a.webp", ".hidden/a.jpg"]
    ):
        draw_image(tmp_path / name, k)
    (tmp_path / "bear" / "notes.txt").write_text("not an image")
    dataset = load("folder", root=str(tmp_path), seed=None)
    assert dataset.class_names == ("2 fox", "10 wolf", "bear")
    assert dataset.labels.tolist() == [1, 0, 0, 2] and dataset.is_test is None
    assert dataset.notes == ("2 files that are not images were left out",)
    assert dataset.images.read(0).shape == (3, 10, 12)


def test_folders_may_be_split_already(tmp_path: Path) -> None:
    for k, name in enumerate(["train/a/1.png", "train/b/1.png", "val/a/2.png", "test/b/3.png"]):
        draw_image(tmp_path / name, k)
    dataset = load("folder", root=str(tmp_path), layout="splits")
    assert dataset.labels.tolist() == [1, 0, 1, 0]
    plan = splits.create(
        "predefined", dataset.labels, is_test=dataset.is_test, is_validation=dataset.is_validation
    )
    assert plan.test.tolist() == [0] and plan.folds[0].validation.tolist() == [3]


def test_train_and_validation_without_a_test_are_no_classes(tmp_path: Path) -> None:
    for k, name in enumerate(["train/a/1.png", "train/b/1.png", "val/a/2.png"]):
        draw_image(tmp_path / name, k)
    with pytest.raises(
        UsageError, match=r"has folders train and val, which are no classes; name them train an"
    ):
        load("folder", root=str(tmp_path))
    draw_image(tmp_path / "car" / "1.png", 4)  # photos of trains and cars, perhaps
    assert set(load("folder", root=str(tmp_path)).class_names) == {"car", "train", "val"}


def test_wrong_folders_are_refused(tmp_path: Path) -> None:
    for root, options, message in [
        (tmp_path / "none", {}, "is not a folder"),
        (tmp_path, {}, "has no subfolders; put the images of each class"),
        (tmp_path, {"layout": "flat"}, "layout = 'flat', but it takes one of classes, splits"),
        (tmp_path, {"layout": "splits"}, "has no folder test"),
    ]:
        with pytest.raises(UsageError, match=message):
            load("folder", root=str(root), **options)
    (tmp_path / "cat").mkdir()
    with pytest.raises(UsageError, match="cat has no images; remove it or add images"):
        load("folder", root=str(tmp_path))


def test_classes_are_in_a_random_order_that_a_new_class_does_not_change(tmp_path: Path) -> None:
    names = [f"{letter}{number}" for letter in "abcd" for number in range(6)]
    for k, name in enumerate(names):
        draw_image(tmp_path / name / "1.png", k)
    found = load("folder", root=str(tmp_path)).class_names
    assert sorted(found) == names and list(found) != names
    kinds = {name[0] for name in found[:12]}  # the development half is not the first half of the alphabet
    assert kinds == set("abcd")
    assert load("folder", root=str(tmp_path), seed=1).class_names != found
    draw_image(tmp_path / "aa" / "1.png", 99)
    with_new = load("folder", root=str(tmp_path)).class_names
    assert tuple(name for name in with_new if name != "aa") == found


def test_a_folder_that_cannot_be_used_names_the_fix(tmp_path: Path) -> None:
    for k, name in enumerate(["nest/photos/a/1.png", "nest/photos/b/1.png"]):
        draw_image(tmp_path / name, k)
    with pytest.raises(UsageError, match=r"did you mean .*nest/photos\?"):
        load("folder", root=str(tmp_path / "nest"))
    for k, name in enumerate(["parts/train/a/1.png", "parts/test/b/1.png"]):
        draw_image(tmp_path / name, k)
    with pytest.raises(UsageError, match="set `layout: splits`"):
        load("folder", root=str(tmp_path / "parts"))
    for name in ("c", "d"):
        (tmp_path / "nest" / "photos" / name).mkdir()
    with pytest.raises(UsageError, match=r"2 class folders of .* have no images \(c, d\); remove them"):
        load("folder", root=str(tmp_path / "nest" / "photos"))


def test_subfolders_of_classes_are_no_classes(tmp_path: Path) -> None:
    for k, name in enumerate(["a/2019/1.png", "a/2020/1.png", "b/2019/1.png"]):
        draw_image(tmp_path / name, k)
    assert sorted(load("folder", root=str(tmp_path)).class_names) == ["a", "b"]


def test_photos_of_phones_need_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    draw_image(tmp_path / "a" / "1.png", 0)
    (tmp_path / "a" / "IMG_1.HEIC").write_bytes(b"a photo")
    with pytest.raises(UsageError, match=r"1 photo is in the format HEIC \(a/IMG_1.HEIC\).*pillow-heif"):
        load("folder", root=str(tmp_path))


def test_links_and_loose_images_are_noted(tmp_path: Path) -> None:
    for k, name in enumerate(["photos/a/1.png", "photos/b/1.png", "elsewhere/2.png", "photos/loose.png"]):
        draw_image(tmp_path / name, k)
    (tmp_path / "photos" / "a" / "more").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "photos" / "c").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    dataset = load("folder", root=str(tmp_path / "photos"))
    assert sorted(dataset.class_names) == ["a", "b", "c"] and len(dataset) == 3
    loose, link = dataset.notes
    assert "1 image is in no class folder and left out (loose.png); move it into a class" in loose
    assert "1 link to a folder inside of a class was not followed (a/more)" in link


def table(folder: Path, text: str) -> str:
    (folder / "t.csv").write_text(text, encoding="utf-8")
    return str(folder / "t.csv")


def test_a_table_gives_paths_labels_split_and_roles(tmp_path: Path) -> None:
    for k in range(5):
        draw_image(tmp_path / "img" / f"{k}.png", k)
    file = table(
        tmp_path,
        "\ufeffpath,label,split,is_query,is_gallery,color\n"
        "img/0.png,10,train,,,red\nimg/1.png,9,train,0,0,red\nimg/2.png,9,val,,,blue\n"
        "img/3.png,2,test,1,0,red\nimg/4.png,2,test,false,TRUE,red\n",
    )
    dataset = load("csv", file=file)
    assert dataset.class_names == ("2", "9", "10") and dataset.labels.tolist() == [2, 1, 1, 0, 0]
    assert dataset.is_test is not None and dataset.is_test.tolist() == [False] * 3 + [True] * 2
    assert dataset.is_validation is not None and dataset.is_validation.tolist() == [
        False,
        False,
        True,
        False,
        False,
    ]
    assert dataset.roles is not None and dataset.roles.tolist() == [0, 0, 0, 1, 2]
    assert dataset.notes == ("ignored columns: color",)
    part = dataset.select(np.array([2, 3]))
    assert part.is_validation is not None and part.is_validation.tolist() == [True, False]


def test_a_table_of_paths_and_labels_is_enough(tmp_path: Path) -> None:
    draw_image(tmp_path / "elsewhere" / "a.png", 0)
    for path, root in (("a.png", tmp_path / "elsewhere"), (tmp_path / "elsewhere" / "a.png", None)):
        file = table(tmp_path, f"label,path\ncat,{path}\n")
        dataset = load("csv", file=file, **({} if root is None else {"root": str(root)}))
        assert dataset.is_test is None and dataset.roles is None and dataset.class_names == ("cat",)
        assert dataset.images.read(0).shape == (3, 10, 12)


def test_absolute_paths_do_not_tell_where_the_images_lie(tmp_path: Path) -> None:
    prints = set()
    for place in ("one", "two"):
        draw_image(tmp_path / place / "a.png", 0)
        prints.add(
            load("csv", file=table(tmp_path, f"path,label\n{tmp_path / place / 'a.png'},x\n")).fingerprint
        )
    assert len(prints) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'has no column "path"'),
        ("paths,label\na,b\n", 'no column "path"; did you mean "paths"'),
        ("path,class\na,b\n", 'has no column "label"'),
        ("path,label\n", "no rows below its header"),
        ("path,label\na.png,\n", "line 2: label is empty"),
        ("path,label\na.png\n", "line 2: label is empty"),
        ("path,label,split\na.png,b,train\na.png,b,tset\n", 'line 3: unknown split "tset"; write train'),
        ("path,label,split,is_query\na.png,b,test,maybe\n", 'line 2: is_query is "maybe"; write 1 or 0'),
        ("path,label,is_query\na.png,b,1\n", "but no test images; mark them as test"),
        ("path,label,split,is_query\na.png,b,test,1\n", "marks only queries or only gallery images"),
        ("path,label,split,is_query,is_gallery\na,b,train,1,1\nc,b,test,1,1\n", "marks training images"),
        ("path,label\nnone.png,b\n", "1 of 1 files are missing"),
    ],
)
def test_wrong_tables_are_refused_by_line(text: str, message: str, tmp_path: Path) -> None:
    draw_image(tmp_path / "a.png", 0)
    with pytest.raises(UsageError, match=message):
        load("csv", file=table(tmp_path, text))


def test_a_missing_or_binary_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        load("csv", file=str(tmp_path / "none.csv"))
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00\x00")
    with pytest.raises(UsageError, match="not a UTF-8 CSV file"):
        load("csv", file=str(tmp_path / "t.csv"))


def test_a_torchvision_set_is_read_through_its_constructor(tmp_path: Path) -> None:
    dataset = load("torchvision:FakeData", size=20, image_size=(3, 8, 6), num_classes=4)
    assert len(dataset) == 20 and dataset.images.read(3).shape == (3, 8, 6) and dataset.is_test is None
    again = load("torchvision:FakeData", size=20, image_size=(3, 8, 6), num_classes=4)
    assert dataset.fingerprint == again.fingerprint
    part = dataset.select(np.array([4, 2]))
    assert (part.images.read(1) == dataset.images.read(2)).all()


def test_torchvisions_train_flag_gives_both_parts(tmp_path: Path) -> None:
    import pickle

    from torchvision.datasets import CIFAR10

    class TinyCifar(CIFAR10):  # type: ignore[misc]  # torchvision has no types
        """CIFAR10 whose files are written here, so their checksums are not the official ones."""

        def _check_integrity(self) -> bool:
            return True

        def _load_meta(self) -> None:
            self.classes = ["plane", "car"]

    folder = tmp_path / CIFAR10.base_folder
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 255, (4, 3072), dtype=np.uint8)
    for name, _ in CIFAR10.train_list + CIFAR10.test_list:
        (folder / name).write_bytes(pickle.dumps({"data": pixels, "labels": [0, 1, 0, 1]}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchvision.datasets.CIFAR10", TinyCifar)
        dataset = load("torchvision:CIFAR10", root=str(tmp_path))
    assert len(dataset) == 24 and dataset.class_names == ("plane", "car")
    assert dataset.is_test is not None and dataset.is_test.tolist() == [False] * 20 + [True] * 4
    assert dataset.images.read(23).shape == (3, 32, 32)


def test_wrong_torchvision_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match='torchvision has no dataset "CIFAR11"; did you mean "CIFAR10'):
        load("torchvision:CIFAR11")
    with pytest.raises(UsageError, match='has no option "trian"; did you mean "train"'):
        load("torchvision:CIFAR10", trian=True)
    with pytest.raises(RunError, match=r"cannot be opened.*set download=true"):
        load("torchvision:CIFAR10", root=str(tmp_path))
    with pytest.raises(UsageError, match="see its page in torchvision's documentation"):
        load("torchvision:EMNIST", root=str(tmp_path), split="nosuch")
    assert registry["torchvision:CIFAR10"].card.summary


def hub(folder: Path, **parts: int) -> str:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        image=datasets.Image(), label=datasets.ClassLabel(names=["cat", "dog", "owl"])
    )
    made = {
        part: datasets.Dataset.from_dict(
            {
                "image": [Image.new("L", (5, 4), k) for k in range(count)],
                "label": [k % 3 for k in range(count)],
            },
            features=features,
        )
        for part, count in parts.items()
    }
    datasets.DatasetDict(made).save_to_disk(folder)
    return f"hf:{folder}"


def test_a_hugging_face_set_is_read_by_columns(tmp_path: Path) -> None:
    name = hub(tmp_path / "set", train=6, validation=3, test=3)
    dataset = load(name)
    assert dataset.class_names == ("cat", "dog", "owl") and len(dataset) == 12
    assert dataset.is_test is not None and dataset.is_test.tolist() == [False] * 9 + [True] * 3
    assert dataset.is_validation is not None and dataset.is_validation.sum() == 3
    image = dataset.images.read(4)
    assert image.shape == (3, 4, 5) and image.max() == 4
    only = load(name, split="train")
    assert len(only) == 6 and only.is_test is None
    for options, message in [
        ({"image": "img"}, 'has no column "img"'),
        ({"label": "lable"}, 'no column "lable"; did you mean "label"'),
        ({"split": "tests"}, 'no part "tests"; did you mean "test"'),
        ({"label": "image"}, "does not hold one class per image"),
        ({"root": "x"}, 'no parameter "root"'),
    ]:
        with pytest.raises(UsageError, match=message):
            load(name, **options)


def test_an_unreachable_hugging_face_set_is_a_failure_and_a_missing_extra_a_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("datasets")
    with pytest.raises(RunError, match="cannot be opened"):
        load(f"hf:{tmp_path / 'nothing'}")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UsageError, match=r"pip install 'levelfield\[huggingface\]'"):
        load("hf:owner/name")


def test_the_plan_says_how_many_test_images_are_asked() -> None:
    """A query set is smaller than the test part, and only queries are scored."""
    from levelfield.data import GALLERY, QUERY, from_arrays
    from levelfield.data.splits import create
    from levelfield.data.views import development_view

    labels = np.repeat(np.arange(8), 5)
    roles = np.where(np.arange(40) % 5 == 0, QUERY, GALLERY).astype(np.int8) * (labels >= 4)
    pixels = np.zeros((40, 1, 8, 8), dtype=np.uint8)
    dataset = from_arrays(
        "asked", pixels, labels, [str(n) for n in range(8)], is_test=labels >= 4, roles=roles
    )
    view = development_view(dataset, create("class_disjoint", labels, folds=2, is_test=labels >= 4))
    assert view.description.endswith("of the test images 4 are queries and 16 are searched")
