"""Every preset resolves for each dataset of its paper, and runs to its end on tiny copies of the datasets.

The copies have the official file layouts. Network, image size and length are tiny; methods, metrics, split,
search and batches per class are the preset's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.oracles import layouts

import levelfield as lf
from levelfield.analysis import read_comparison, verify
from levelfield.config import Experiment, preset_names
from levelfield.protocol import resolve_experiment

pytestmark = pytest.mark.slow
BENCHMARKS = ("cub200", "cars196", "sop")
DATASETS = {preset: BENCHMARKS for preset in preset_names()} | {
    "demo": ("glyphs",),
    "landmarks": ("gldv2",),
    "dinov2-retrieval": (*BENCHMARKS, "inshop"),
    "mlrc-batch256": ("cub200",),  # the only one of the supplement
    "deep-dive-cv": ("cub200",),
    "deep-dive-fixed": ("cub200",),
}
# Each layout is run to the end with at least one preset; the other presets take their first dataset.
RUN = {"deep-dive": "sop", "dinov2-retrieval": "inshop", "laptop-tail": "cars196"}
CASES = [(preset, dataset) for preset, datasets in DATASETS.items() for dataset in datasets]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the five datasets, with images of 16 x 16."""
    root = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        draw = layouts.draw_image
        patch.setattr(layouts, "draw_image", lambda file, seed: draw(file, seed, (16, 16)))
        layouts.cub200(root, classes=44, images=4)
        layouts.cars196(root, classes=44, images=4)
        layouts.sop(root, train=22, test=22, images=4)
        write_inshop(root / "inshop")
        write_gldv2(root / "gldv2")
    return root


def write_inshop(folder: Path) -> None:
    """Write 20 items to train, and 6 to test with a query and two gallery images."""
    rows = [(f"id_{n:08}", "train") for n in range(20) for _ in range(4)]
    rows += [(f"id_{n:08}", status) for n in range(20, 26) for status in ("query", "gallery", "gallery")]
    lines = [str(len(rows)), "image_name item_id evaluation_status"]
    for k, (item, status) in enumerate(rows):
        path = f"img/WOMEN/Dresses/{item}/{k:02}_front.jpg"
        layouts.draw_image(folder / path, k)
        lines.append(f"{path:60} {item} {status}")
    layouts._lines(folder / "Eval" / "list_eval_partition.txt", lines)


def write_gldv2(folder: Path) -> None:
    """Write 20 landmarks to train, of which five have a single image, and an index of 6 landmarks."""

    def image(part: str, k: int) -> str:
        name = f"{'abc'[('train', 'index', 'test').index(part)]}{k:015x}"
        layouts.draw_image(folder / part / name[0] / name[1] / name[2] / f"{name}.jpg", 1000 * len(part) + k)
        return name

    sizes = [5] * 5 + [1] * 5 + [5] * 10
    numbers = iter(range(sum(sizes)))
    train = {n: [image("train", next(numbers)) for _ in range(size)] for n, size in enumerate(sizes)}
    clean = [f"{n},{' '.join(names)}" for n, names in train.items()]
    every = [f"{name},http://x/{name},{n}" for n, names in train.items() for name in names]
    index = [(image("index", k), k // 3) for k in range(18)]
    queries = [f"{image('test', k)},{index[3 * k][0]} {index[3 * k + 1][0]},Public" for k in range(6)]
    layouts._lines(folder / "train.csv", ["id,url,landmark_id", *every])
    layouts._lines(folder / "train_clean.csv", ["landmark_id,images", *clean])
    layouts._lines(
        folder / "index_image_to_landmark.csv", ["id,landmark_id", *(f"{i},{n}" for i, n in index)]
    )
    layouts._lines(folder / "retrieval_solution_v2.1.csv", ["id,images,Usage", *queries])


def tiny(preset: str, dataset: str, root: Path) -> Experiment:
    """Return the preset's experiment with a tiny network, tiny batches and a few steps."""
    planned = Experiment.build(name="tiny", preset=preset, **({} if preset == "demo" else named(dataset)))
    trunk = {"name": "conv4", "width": 8, "weights": "none", "mode": planned.trunk.mode}
    trunk |= {"freeze_bn": planned.trunk.freeze_bn, "views": min(planned.trunk.views, 1)}
    if planned.trunk.mode == "tail":
        trunk["from"] = "2"
    changes: dict[str, Any] = {
        "head": {"size": 8},
        "batch": {"size": 8, "adapt": True},
        "training": {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None},
        "search": {"trials": 1, "repeats": 1},
        "confirm": {"reruns": 1, "gallery": 0},
        "engine": {"workers": 0, "device": "cpu", "loaders": 0},
    }
    if planned.head.kind == "none":
        changes["head"]["kind"] = "linear"  # conv4 ends with a ReLU: some features are all zero
    if planned.training.precision != "float32":
        changes["training"]["precision"] = "float32"
    if dataset == "glyphs":
        changes["dataset"] = {"name": "glyphs", "size": 16, "samples_per_class": 6}
        trunk["in_channels"] = 1
    else:
        changes["dataset"] = {"name": dataset, "root": str(root)}
        changes["transform"] = {"name": "none"}
    if "folds" in planned.split.options:
        changes["split"] = {**planned.split.options, "name": planned.split.name, "folds": 2}
    return Experiment.build(name="tiny", preset=preset, trunk=trunk, **changes)


def named(dataset: str) -> dict[str, Any]:
    return {"dataset": {"name": dataset}}


@pytest.mark.parametrize(("preset", "dataset"), CASES)
def test_a_preset_resolves_for_each_dataset_of_its_paper(preset: str, dataset: str, data: Path) -> None:
    resolved = resolve_experiment(tiny(preset, dataset, data))
    assert len(resolved.methods) == len(Experiment.build(name="x", preset=preset).methods)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with all 200 classes of CUB, with four images of 8 x 8 each."""
    root = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        draw = layouts.draw_image
        patch.setattr(layouts, "draw_image", lambda file, seed: draw(file, seed, (8, 8)))
        layouts.cub200(root, classes=200, images=4)
    return root


@pytest.mark.parametrize("preset", [name for name, found in DATASETS.items() if "cub200" in found])
def test_a_preset_resolves_with_its_own_network_and_batches(preset: str, whole: Path) -> None:
    """The weights are random, because those of some networks cannot be had without a download."""
    cub = {"name": "cub200", "root": str(whole)}
    experiment = Experiment.build(name="x", preset=preset, dataset=cub, trunk={"weights": "none"})
    assert len(resolve_experiment(experiment).methods) == len(experiment.methods)


@pytest.mark.parametrize("preset", preset_names())
def test_a_preset_runs_to_its_end(preset: str, data: Path, tmp_path: Path) -> None:
    experiment = tiny(preset, RUN.get(preset, DATASETS[preset][0]), data)
    root = lf.run(experiment, tmp_path / "out").path
    comparison = read_comparison(root)
    assert [result.method for result in comparison.trained] == [m.name for m in experiment.methods]
    for result in comparison.trained:
        assert not result.failed and result.selection.failed is None
        assert all(len(scores) == 1 for scores in result.scores["concatenated"].values())
    assert verify(root) == []
    page = (root / "report" / "index.html").read_text()
    assert all(method.name in page for method in experiment.methods)


def test_every_preset_has_datasets_and_every_layout_is_run() -> None:
    assert sorted(DATASETS) == sorted(preset_names())
    ran = {RUN.get(preset, datasets[0]) for preset, datasets in DATASETS.items()}
    assert ran == {dataset for datasets in DATASETS.values() for dataset in datasets}
