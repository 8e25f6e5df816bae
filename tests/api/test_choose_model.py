"""``lf.choose_model`` and ``levelfield models``: trunks, files and functions; bad ones are left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.oracles import layouts

import levelfield as lf
from levelfield.cli._app import run_app
from levelfield.core.errors import UsageError
from levelfield.models import suggestions

ENCODERS = """
import torch
from torch import nn

import levelfield as lf

calls = []
seen = []


def encode(images):
    return images.float().mean((2, 3)) + torch.arange(3)


def fails(images):
    raise ValueError("out of\\nluck")


def nan(images):
    return torch.full((len(images), 3), float("nan"))


def odd(images):
    calls.append(len(images))
    return torch.rand(len(images), 2 + len(calls))


def later(images):
    seen.append(len(images))  # two batches of the test, four of the speed, then images of other classes
    return torch.rand(len(images), 4 if len(seen) < 7 else 5)


def flat(images):
    return torch.zeros(len(images))


class Pooled(nn.Module):
    image_size = 32

    def forward(self, images):
        return nn.functional.adaptive_avg_pool2d(images.float(), 4).flatten(1)


network = Pooled()
number = 3
"""


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten classes of eight images, which pooled colors tell apart; and the encoders beside them."""
    top = tmp_path_factory.mktemp("choice")
    random = np.random.default_rng(0)
    for label in range(10):
        base = random.integers(0, 255, (4, 4, 3))
        folder = top / "photos" / f"class {label}"
        folder.mkdir(parents=True)
        for number in range(8):
            noisy = (base + random.normal(0, 60, (4, 4, 3))).clip(0, 255).astype(np.uint8)
            Image.fromarray(noisy).resize((40, 40)).save(folder / f"{number}.png")
    (top / "mine.py").write_text(ENCODERS)
    return top


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))


def choose(photos: Path, *models: str, **options: Any) -> lf.ChoiceResult:
    return lf.choose_model(photos / "photos", models, seconds=0, **options)


@pytest.mark.slow
def test_quality_cost_and_codes_of_each_model(photos: Path) -> None:
    pooled, mean = f"{photos}/mine.py:network", f"{photos}/mine.py:encode"
    found = choose(photos, "conv4=none", pooled, mean)
    assert found.best == (pooled,) and found.verdict.startswith(f"Use {pooled}") and not found.left_out
    table = found.table.set_index("model")
    assert table.loc[pooled, "size"] == 48 and table.loc[pooled, "image_size"] == 32
    assert table.loc["conv4=none", "parameters"] > 1000 and np.isnan(table.loc[mean, "parameters"])
    assert (table["images_per_second"] > 0).all() and pooled in found.undominated
    codes = found.codes[found.codes["model"] == "conv4=none"].set_index("name")
    assert {"full", "float16", "int8", "binary"} <= set(codes.index) and codes.loc["binary", "bytes"] == 16
    assert codes.loc["full", "score"] == pytest.approx(table.loc["conv4=none", "map_at_r"])
    assert json.loads(json.dumps(found.as_dict()))["costs"][pooled]["size"] == 48
    assert found.verdict in found._repr_html_() and "conv4=none" in repr(found)


@pytest.mark.slow
def test_scores_are_those_of_the_test_classes_of_an_experiment(photos: Path) -> None:
    found = choose(photos, f"{photos}/mine.py:network", codes=False)
    dataset = lf.data.load("folder", root=str(photos / "photos"))
    plan = lf.data.splits.create("class_disjoint", dataset.labels, folds=2)
    assert found.choice.comparison.scored.sum() == len(plan.test) == 40
    names = found.choice.comparison.names
    images = dataset.images
    assert isinstance(images, lf.data.FileImages)
    assert names is not None and set(names) == {images.paths[row] for row in plan.test}
    everything = choose(photos, f"{photos}/mine.py:network", all_classes=True)
    assert everything.choice.comparison.scored.sum() == 80
    assert any("PCA is left out" in note for note in everything.choice.comparison.caveats)


@pytest.mark.slow
def test_features_are_cached_and_the_network_is_not_run_again(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = choose(photos, "conv4=none")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the features are cached")

    monkeypatch.setattr("levelfield.models.features._loader", lambda *_, **__: refuse)
    again = choose(photos, "conv4=none")
    assert again.table["map_at_r"].tolist() == first.table["map_at_r"].tolist()


@pytest.mark.slow
def test_gray_images_and_networks_that_cannot_take_their_size(photos: Path) -> None:
    found = lf.choose_model(
        "glyphs",
        ["conv4=none", f"{photos}/mine.py:network"],
        options={"samples_per_class": 2},
        size=32,
        seconds=0,
        codes=False,
    )
    assert len(found.choice.comparison.means) == 2
    with pytest.raises(UsageError, match="conv4=none: RuntimeError"):
        choose(photos, "conv4=none", size=3)


BAD = {
    "conv4": "conv4 has no published weights",
    "conv4=missing.pt": 'unknown weights "missing.pt"; the file does not exist',
    "conv4=": 'names no weights after "="',
    "timm:no_such_net=none": "timm has no network",
    "mine.py:fails": "failed: ValueError: out of luck",
    "mine.py:nan": "returned NaN or infinite numbers",
    "mine.py:odd": "its output must have one size",
    "mine.py:flat": "return one row of numbers per image",
    "mine.py:number": "is of type int; name a function or a network",
    "mine.py:missing": 'has no "missing"',
    "gone.py:encode": "does not exist",
}


@pytest.mark.slow
def test_models_that_cannot_be_had_are_left_out_and_the_others_go_on(photos: Path) -> None:
    names = [f"{photos}/{name}" if ".py:" in name else name for name in BAD]
    found = choose(photos, *names, f"{photos}/mine.py:network", codes=False)
    assert list(found.choice.comparison.means) == [f"{photos}/mine.py:network"]
    assert len(found.left_out) == len(BAD)
    for name, message in zip(names, BAD.values(), strict=True):
        assert message in found.left_out[name] and "\n" not in found.left_out[name]
    with pytest.raises(UsageError, match="conv4 has no published weights"):
        choose(photos, "conv4")
    with pytest.raises(UsageError, match="returned 5 numbers per image, 4 before; its output must have one"):
        choose(photos, f"{photos}/mine.py:later")


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("photos/none", {}, "there is no folder or CSV file"),
        ("nonsense", {}, 'there is no folder, CSV file or dataset "nonsense"; choose from cars196'),
        (None, {"models": "conv4=none"}, "models is one string"),
        (None, {"models": ["conv4=none", "conv4=none"]}, "is listed twice"),
        (None, {"models": ["conv4=none"], "metrics": ["nmi"]}, "name a retrieval metric first"),
        (None, {"models": ["conv4=none"], "metrics": ["map_at_rr"]}, "map_at_rr"),
        (None, {"models": ["conv4=none"], "device": "tpu9"}, "is not a device"),
    ],
)
def test_bad_input_is_one_line(
    photos: Path, source: str | None, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        lf.choose_model(source or photos / "photos", **options)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_the_command_prints_json_writes_a_page_and_names_what_is_left_out(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    models = f"conv4=none,{photos}/mine.py:encode,conv4"
    arguments = ["models", str(photos / "photos"), "--models", models, "--seconds", "0", "--no-codes", "-q"]
    assert run_app([*arguments, "--report", str(page), "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["left_out"]["conv4"] and "left out: conv4 has no" in printed.err
    assert "Quality against speed" in page.read_text()
    assert run_app(arguments) == 1
    assert "## Quality and cost" in capsys.readouterr().out


@pytest.mark.slow
def test_a_dataset_with_lists_is_scored_by_them(tmp_path: Path, photos: Path) -> None:
    layouts.revisited(tmp_path)
    found = lf.choose_model(
        "roxford5k", [f"{photos}/mine.py:network"], options={"root": str(tmp_path)}, seconds=0
    )
    assert {"map_trapezoid", "mp_at_10"} <= set(found.table.columns)
    assert found.choice.comparison.metric == "map_trapezoid"
    classes = found.choice.comparison.classes
    assert classes is not None and set(classes.tolist()) == {"tower", "gate"}


def test_suggestions_are_networks_of_timm(capsys: pytest.CaptureFixture[str]) -> None:
    import timm

    for each in suggestions.SUGGESTIONS:
        assert timm.is_model(each.name.removeprefix("timm:")), each.name
        config = timm.get_pretrained_cfg(each.name.removeprefix("timm:"))
        assert config is not None and config.has_weights, each.name
    assert set(suggestions.suggested("laptop")) < set(suggestions.suggested("gpu"))
    assert run_app(["ls", "models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {each["machine"] for each in listed} == {"laptop", "gpu"}
    assert {each["weights"] for each in listed} <= {"installed", "in the cache", "download"}


@pytest.mark.slow
def test_trained_heads_are_compared_with_the_features(photos: Path, tmp_path: Path) -> None:
    found = choose(
        photos, "timm:resnet10t=none", f"{photos}/mine.py:encode", train_heads=tmp_path / "heads", trials=1
    )
    (head,) = found.choice.heads.values()
    assert head.method == "multi_similarity" and head.verdict in (
        "better",
        "worse",
        "equivalent",
        "undecided",
    )
    assert (Path(head.directory) / "experiment.json").exists()
    assert "it is not a trunk" in found.left_out[f"{photos}/mine.py:encode, trained head"]
