"""Model directories and indexes from strangers run no code and cannot ask for unbounded work."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import levelfield as lf
from levelfield import models
from levelfield.cli._app import run_app
from levelfield.core.errors import LevelfieldError, UsageError
from levelfield.core.files import sha256_of_file
from levelfield.core.trust import check_trusted
from levelfield.retrieval.embedders import Architecture, ModelCard, Preprocessing, write_model
from levelfield.retrieval.embedders._bounds import bounded_building
from levelfield.retrieval.embedders._model_directory import build_network

Values = dict[str, Any]


def make_model(directory: Path) -> Path:
    shape = Architecture(trunk="conv4", trunk_options={"width": 4}, size=8)
    write_model(
        directory, build_network(shape), architecture=shape, preprocessing=Preprocessing(size=(32, 32))
    )
    return directory


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return make_model(tmp_path / "model")


def rewrite(directory: Path, change: Callable[[Values], None], *, sign: bool = True) -> None:
    """Change ``model.json`` as a stranger would: with the identity of the changed content."""
    file = directory / "model.json"
    values = json.loads(file.read_text())
    change(values)
    if sign:
        with contextlib.suppress(ValueError):  # refused by its bounds
            values["identity"] = ModelCard.model_validate(values).compute_identity()
    file.write_text(json.dumps(values))


def set_trap(folder: Path) -> tuple[str, Path]:
    folder.mkdir()
    marker = folder / "it-ran"
    (folder / "hubconf.py").write_text(
        f"open({str(marker)!r}, 'w').close()\n"
        "def net(pretrained=False):\n    import torch\n    return torch.nn.Conv2d(3, 4, 1)\n"
    )
    return f"hub:{folder}/net", marker


def test_a_card_that_names_a_repository_runs_nothing(model: Path, tmp_path: Path) -> None:
    name, marker = set_trap(tmp_path / "stranger")
    rewrite(model, lambda card: card["architecture"].update(trunk=name, trunk_options={}))
    with pytest.raises(UsageError, match=r"would run the file hubconf\.py of .*stranger.*give --trust"):
        lf.load_embedder(model)
    assert not marker.exists()
    with pytest.raises(LevelfieldError):  # the weights do not fit, but the code runs
        lf.load_embedder(model, trust=True)
    assert marker.exists()


@pytest.mark.slow
def test_the_command_line_runs_nothing_without_trust(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, marker = set_trap(tmp_path / "stranger")
    photo = tmp_path / "photos" / "a" / "1.png"
    photo.parent.mkdir(parents=True)
    Image.new("RGB", (32, 32)).save(photo)
    model, index = make_model(tmp_path / "model"), tmp_path / "index"
    index_command = ["index", str(photo.parents[1]), "--model", str(model), "-o", str(index), "-q"]
    assert run_app(index_command) == 0
    for directory in (model, index / "model"):
        rewrite(directory, lambda card: card["architecture"].update(trunk=name, trunk_options={}))
    capsys.readouterr()
    for command in (["search", str(index), str(photo)], index_command, ["serve", "--index", str(index)]):
        assert run_app(command) == 2
        assert "give --trust" in capsys.readouterr().err
    assert not marker.exists()


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("hub:stranger/net/small", "hubconf.py of stranger/net"),
        ("hf-hub:stranger/net", "stranger/net of the Hugging Face hub"),
        ("timm:hf-hub:stranger/net", "the plug-in family timm"),
        ("other:thing", "the plug-in family other"),
    ],
)
def test_the_message_says_what_would_run(name: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        check_trusted(models.registry, name, origin="model.json", trust=False)
    check_trusted(models.registry, name, origin="model.json", trust=True)


def test_ordinary_trunks_need_no_trust() -> None:
    for name in ("conv4", "resnet50", "timm:resnet18", "no such trunk"):
        check_trusted(models.registry, name, origin="model.json", trust=False)


def test_a_plugin_trunk_needs_trust() -> None:
    @models.register("stranger_trunk")
    def stranger_trunk(*, in_channels: int = 3) -> models.Trunk:
        """Trunk of a plug-in."""
        return models.create_trunk("conv4", in_channels=in_channels)

    with pytest.raises(UsageError, match="the plug-in stranger_trunk, which is not part of levelfield"):
        check_trusted(models.registry, "stranger_trunk", origin="model.json", trust=False)


@pytest.mark.parametrize("option", ["checkpoint_path", "pretrained_cfg", "cache_dir"])
def test_a_card_cannot_make_timm_read_files(option: str) -> None:
    with pytest.raises(UsageError, match=f"does not take {option} here"):
        options: dict[str, Any] = {option: "evil.pth"}
        models.create_trunk("timm:resnet10t", **options)


THIN = {"embed_dim": 3, "num_heads": 1}
HOSTILE: dict[str, Callable[[Values], None]] = {
    "size": lambda card: card["architecture"].update(size=10**12),
    "hidden": lambda card: card["architecture"].update(head="mlp", hidden=10**12),
    "hidden below its bound": lambda card: card["architecture"].update(
        head="mlp", hidden=65_536, size=65_536
    ),
    "channels": lambda card: card["architecture"].update(in_channels=10**9),
    "width": lambda card: card["architecture"].update(trunk_options={"width": 10**12}),
    "width below its bound": lambda card: card["architecture"].update(trunk_options={"width": 60_000}),
    "width as text": lambda card: card["architecture"].update(trunk_options={"width": "9" * 5000}),
    "depth": lambda card: card["architecture"].update(
        trunk="timm:vit_tiny_patch16_224", trunk_options={"depth": 60_000}
    ),
    "pixels": lambda card: card["preprocessing"].update(size=[10**6, 10**6]),
    "no pixels": lambda card: card["preprocessing"].update(size=[0, 0]),
    "negative pixels": lambda card: card["preprocessing"].update(size=[-5, 32]),
    "too few pixels": lambda card: card["preprocessing"].update(size=[2, 32]),
    "one number": lambda card: card["preprocessing"].update(size=[32]),
    "scale": lambda card: card["preprocessing"].update(scales=[1e9]),
    "negative scale": lambda card: card["preprocessing"].update(scales=[-1.0]),
    "no scales": lambda card: card["preprocessing"].update(scales=[]),
    "many scales": lambda card: card["preprocessing"].update(scales=[1.0] * 20_000),
    "not a number": lambda card: card["pixels"].update(scale=float("nan")),
    "infinite": lambda card: card["pixels"].update(mean=[float("inf")]),
    "parts": lambda card: card.update(parts=10**12),
    "two parts": lambda card: card.update(parts=2),
    "vector size": lambda card: card.update(size=10**6),
    "whitened": lambda card: card.update(whitened=True),
    "notes": lambda card: card.update(notes=["x"] * 100_000),
    "name": lambda card: card.update(name="x" * 10**6),
    "threshold": lambda card: card.update(threshold={"similarity": 5}),
    "checksum": lambda card: card.update(weights_sha256="../../etc/passwd"),
    "transform": lambda card: card["preprocessing"].update(transform="crop", options={"size": 60_000}),
    "large at a large scale": lambda card: card["preprocessing"].update(size=[4096, 4096], scales=[8.0]),
    "large many times": lambda card: card["preprocessing"].update(size=[4096, 4096], scales=[1.0] * 16),
}
for option, value in {"features_only": True, "norm_layer": "x", "act_layer": "x", "global_pool": "x"}.items():
    HOSTILE[f"timm's {option}"] = lambda card, options={option: value}: card["architecture"].update(  # type: ignore[misc]  # no type for defaults
        trunk="timm:resnet10t", trunk_options=options
    )


@pytest.mark.slow
@pytest.mark.parametrize("attack", HOSTILE)
def test_hostile_cards_are_refused_in_one_line(model: Path, attack: str) -> None:
    rewrite(model, HOSTILE[attack])
    with pytest.raises(LevelfieldError) as caught:
        lf.load_embedder(model).embed(np.zeros((32, 32, 3), dtype=np.uint8))
    assert "\n" not in str(caught.value)


def test_a_card_with_endless_layers_is_refused_soon() -> None:
    with pytest.raises(UsageError, match="far more memory or layers"), bounded_building({}):
        build_network(Architecture(trunk="timm:vit_tiny_patch16_224", trunk_options=THIN | {"depth": 60_000}))


def test_what_operations_return_counts_before_it_is_allocated() -> None:
    with pytest.raises(UsageError, match="far more memory or layers"), bounded_building({}):
        row = torch.arange(200_000)
        row[:, None] - row[None, :]  # as window attention does: 320 GB


def test_a_card_may_have_as_many_layers_as_its_weights() -> None:
    tensors = {str(number): torch.zeros(1) for number in range(3000)}
    with bounded_building(tensors):
        build_network(Architecture(trunk="timm:vit_tiny_patch16_224", trunk_options=THIN | {"depth": 100}))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 10_000, "\ud800", " " * 10_000_001])
def test_hostile_json_is_refused_in_one_line(model: Path, text: str) -> None:
    (model / "model.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(LevelfieldError):
        lf.load_embedder(model)


def test_missing_tensors_are_refused(model: Path) -> None:
    tensors = load_file(model / "weights.safetensors")
    tensors.pop(next(key for key in tensors if key.endswith("weight")))
    save_file(tensors, model / "weights.safetensors")
    rewrite(model, lambda card: card.update(weights_sha256=sha256_of_file(model / "weights.safetensors")))
    with pytest.raises(UsageError, match="the weights do not fit the architecture"):
        lf.load_embedder(model)
    save_file({"other": torch.zeros(1)}, model / "weights.safetensors")
    rewrite(model, lambda card: card.update(weights_sha256=sha256_of_file(model / "weights.safetensors")))
    with pytest.raises(UsageError, match="no tensors of part 0"):
        lf.load_embedder(model)


def test_several_images_are_embedded_inside_inference_mode(model: Path) -> None:
    embedder = lf.load_embedder(model)
    images = [np.full((32, 32, 3), value, dtype=np.uint8) for value in (0, 100, 200)]
    wanted = embedder.embed(images)
    with torch.inference_mode():
        found = lf.load_embedder(model).embed(images)
    torch.testing.assert_close(found.clone(), wanted)
