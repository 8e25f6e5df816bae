"""A model directory holds the trained embedder with its preprocessing; changes to its files are detected."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.oracles import bad_images
from tests.retrieval.embedders.conftest import SHAPE, trained

import levelfield as lf
from levelfield.core.errors import RunError, UsageError
from levelfield.data import ImageError, transforms
from levelfield.retrieval.embedders import (
    Architecture,
    MatchThreshold,
    ModelScore,
    Preprocessing,
    TrainingData,
    build_network,
    read_model_card,
    write_model,
)
from levelfield.retrieval.rerank import fit_whitening

SMALL = Preprocessing(size=(32, 32))


def make_image(seed: int = 0) -> Image.Image:
    return bad_images.noise(seed, size=(50, 44))


def test_the_loaded_embedder_is_the_trained_one_behind_its_transform(tmp_path: Path) -> None:
    network = trained()
    seen = Preprocessing(transform="red", options={"size": 32, "resize": 40})
    write_model(tmp_path, network, architecture=SHAPE, preprocessing=seen)
    loaded = lf.load_embedder(tmp_path)
    pixels = torch.from_numpy(np.array(make_image())).permute(2, 0, 1)
    crop = transforms.create("red", train=False, size=32, resize=40)([pixels], torch.Generator())
    with torch.inference_mode():
        wanted = network.eval()(crop)
    torch.testing.assert_close(loaded.embed(make_image()), wanted)


def test_every_way_to_give_an_image_gives_one_vector(model: Path, tmp_path: Path) -> None:
    loaded = lf.load_embedder(model)
    file = tmp_path / "image.png"
    make_image().save(file)
    array = np.array(make_image())
    tensor = torch.from_numpy(array).permute(2, 0, 1)
    wanted = loaded.embed(make_image())
    assert wanted.shape == (1, 8)
    torch.testing.assert_close(wanted.norm(dim=1), torch.ones(1))
    for given in (file, str(file), file.read_bytes(), array, tensor, [make_image()], tensor[None]):
        torch.testing.assert_close(loaded.embed(given), wanted)
    many = loaded.embed([make_image(n) for n in range(11)])
    torch.testing.assert_close(many[:1], wanted, atol=1e-5, rtol=0)
    torch.testing.assert_close(many[10:], loaded.embed(make_image(10)), atol=1e-5, rtol=0)


def test_several_parts_are_concatenated_and_whitened(tmp_path: Path) -> None:
    networks = [trained(seed).eval() for seed in range(3)]
    images = torch.rand(40, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        together = torch.cat([network(images) for network in networks], 1) / 3**0.5
    write_model(tmp_path / "plain", networks, architecture=SHAPE, preprocessing=SMALL)
    plain = lf.load_embedder(tmp_path / "plain")
    assert plain.size == 24
    torch.testing.assert_close(plain(images), together)
    whitening = fit_whitening(together, size=5)
    write_model(tmp_path / "white", networks, architecture=SHAPE, preprocessing=SMALL, whitening=whitening)
    white = lf.load_embedder(tmp_path / "white")
    assert white.size == 5
    torch.testing.assert_close(white(images), whitening(together), atol=1e-3, rtol=0)
    assert read_model_card(tmp_path / "plain").identity != read_model_card(tmp_path / "white").identity


def test_the_mirrored_view_makes_an_image_and_its_mirror_image_equal(tmp_path: Path) -> None:
    seen = Preprocessing(size=(32, 32), scales=(1.0, 0.5), flip=True)
    write_model(tmp_path, trained(), architecture=SHAPE, preprocessing=seen)
    loaded = lf.load_embedder(tmp_path)
    pixels = torch.from_numpy(np.array(make_image().resize((32, 32)))).permute(2, 0, 1)
    torch.testing.assert_close(loaded.embed(pixels), loaded.embed(pixels.flip(-1)))
    torch.testing.assert_close(
        loaded.embed([pixels, pixels]), loaded.embed(pixels).expand(2, -1), atol=1e-5, rtol=0
    )


def test_a_gray_model_takes_color_images(tmp_path: Path) -> None:
    shape = Architecture(trunk="conv4", trunk_options={"width": 4}, in_channels=1, size=8)
    write_model(tmp_path, trained(shape=shape), architecture=shape, preprocessing=SMALL)
    loaded = lf.load_embedder(tmp_path)
    gray = make_image().convert("L")
    torch.testing.assert_close(loaded.embed(gray), loaded.embed(make_image()), atol=2e-2, rtol=0)


def test_the_card_has_all_facts(tmp_path: Path) -> None:
    card = write_model(
        tmp_path,
        trained(),
        architecture=SHAPE,
        preprocessing=SMALL,
        name="birds",
        method="contrastive",
        data=TrainingData(name="cub200", license="research only"),
        scores=[ModelScore(metric="map_at_r", value=0.2, low=0.19, high=0.21)],
        threshold=MatchThreshold(
            similarity=0.7, false_accept_rate=0.01, true_accept_rate=0.5, queries=200, gallery=200
        ),
        notes=["ImageNet weights: research only"],
    )
    assert read_model_card(tmp_path) == card
    content = json.loads((tmp_path / "model.json").read_text())
    assert content["scores"][0]["low"] == 0.19
    assert content["pixels"] == {"mean": [0.5], "std": [0.5], "scale": 1.0, "bgr": False}


def damage_weights(directory: Path) -> None:
    file = directory / "weights.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(bytes(data))


def edit(directory: Path, **changes: object) -> None:
    file = directory / "model.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


@pytest.mark.parametrize(
    ("tamper", "line"),
    [
        (damage_weights, "checksum differs: damaged or tampered with"),
        (lambda f: edit(f, preprocessing={"transform": "red"}), "was changed after it was written"),
        (lambda f: edit(f, weights_sha256="0" * 64), "was changed after it was written"),
        (lambda f: edit(f, surprise=1), "is damaged .surprise"),
        (lambda f: edit(f, version=2), "has version 2"),
        (lambda f: edit(f, format="other"), "is not a levelfield model card"),
        (lambda f: (f / "model.json").write_text("{"), "is damaged"),
        (lambda f: (f / "model.json").unlink(), "is not a model directory"),
        (lambda f: (f / "weights.safetensors").unlink(), "cannot read"),
    ],
)
def test_tampering_is_one_clear_line(model: Path, tamper: Callable[[Path], object], line: str) -> None:
    tamper(model)
    with pytest.raises((RunError, UsageError), match=line) as caught:
        lf.load_embedder(model)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        SHAPE.model_copy(update={"size": 9}),
        SHAPE.model_copy(update={"trunk_options": {"width": 5}}),
        SHAPE.model_copy(update={"pooling": "max"}),
        SHAPE.model_copy(update={"head": "mlp"}),
    ],
)
def test_a_wrong_architecture_is_found_when_the_model_is_written(tmp_path: Path, wrong: Architecture) -> None:
    with pytest.raises(UsageError, match="of the training"):
        write_model(tmp_path, trained(), architecture=wrong, preprocessing=SMALL)
    assert not list(tmp_path.iterdir())


def test_writing_leaves_the_network_in_training_mode(tmp_path: Path) -> None:
    network = build_network(SHAPE)
    write_model(tmp_path, network, architecture=SHAPE, preprocessing=SMALL)
    assert network.training


def test_a_transform_that_leaves_the_size_open_needs_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"preprocessing\.size"):
        write_model(tmp_path, trained(), architecture=SHAPE, preprocessing=Preprocessing())


@pytest.mark.parametrize("name", bad_images.readable())
def test_odd_images_are_embedded(model: Path, name: str) -> None:
    vector = lf.load_embedder(model).embed(bad_images.readable()[name])
    assert torch.isfinite(vector).all()


@pytest.mark.parametrize("name", bad_images.unreadable())
def test_unreadable_images_get_one_line(model: Path, tmp_path: Path, name: str) -> None:
    data, reason = bad_images.unreadable()[name]
    (tmp_path / name).write_bytes(data)
    for given in (data, tmp_path / name):
        with pytest.raises(ImageError) as caught:
            lf.load_embedder(model).embed(given)
        assert reason in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", [3.5, np.zeros((4, 4)), torch.zeros(3, 4, 4), io.BytesIO()])
def test_other_objects_get_one_line(model: Path, given: Any) -> None:
    with pytest.raises(ImageError, match="is not an image"):
        lf.load_embedder(model).embed([given])


@pytest.mark.slow
def test_onnx_gives_the_same_vectors(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from levelfield.retrieval.embedders.onnx import export_onnx

    networks = [trained(seed) for seed in range(2)]
    images = torch.rand(30, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        whitening = fit_whitening(torch.cat([n.eval()(images) for n in networks], 1) / 2**0.5, size=5)
    seen = Preprocessing(size=(32, 32), flip=True)
    write_model(tmp_path, networks, architecture=SHAPE, preprocessing=seen, whitening=whitening)
    loaded = lf.load_embedder(tmp_path)
    assert export_onnx(loaded, tmp_path / "model.onnx") <= 1e-4
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"))
    pixels = (255 * images).to(torch.uint8)
    (got,) = session.run(None, {"images": pixels.numpy()})
    np.testing.assert_allclose(got, loaded(pixels).numpy(), atol=1e-4)
    told = session.get_modelmeta().custom_metadata_map
    assert told["levelfield.input"] == "images: uint8, 0 to 255, batch x 3 x 32 x 32, RGB"
    assert Preprocessing.model_validate_json(told["levelfield.preprocessing"]) == seen
    assert told["levelfield.identity"] == loaded.card.identity
    for wrong in (images.numpy(), (255 * images).numpy()):  # floats of either range end in an error
        with pytest.raises(Exception, match="uint8"):
            session.run(None, {"images": wrong})


def test_onnx_refuses_several_scales(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    from levelfield.retrieval.embedders.onnx import export_onnx

    seen = Preprocessing(size=(32, 32), scales=(1.0, 0.5))
    write_model(tmp_path, trained(), architecture=SHAPE, preprocessing=seen)
    with pytest.raises(UsageError, match="one scale only"):
        export_onnx(lf.load_embedder(tmp_path), tmp_path / "model.onnx")


def test_a_long_list_is_decoded_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tmp_path, trained(), architecture=SHAPE, preprocessing=Preprocessing(size=(32, 32)))
    loaded = lf.load_embedder(tmp_path)
    images = [torch.full((3, 32, 32), 9 * number, dtype=torch.uint8) for number in range(11)]
    whole = loaded.embed(images)
    sizes: list[int] = []
    embed_batch = loaded.embed_batch

    def record(batch: torch.Tensor, *, threads: int | None = None) -> torch.Tensor:
        sizes.append(len(batch))
        return embed_batch(batch, threads=threads)

    monkeypatch.setattr(loaded, "embed_batch", record)
    monkeypatch.setattr("levelfield.retrieval.embedders._embedder.CHUNK", 4)
    torch.testing.assert_close(loaded.embed(images), whole, atol=1e-5, rtol=0)
    assert sizes == [4, 4, 3]
