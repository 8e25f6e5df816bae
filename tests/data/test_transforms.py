"""Transforms: the papers' recipes, driven by a generator alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp
from tests.oracles.pil_transforms import pil_batch, pil_transform, to_pil
from torch import Tensor
from torchvision.transforms import RandomResizedCrop, Resize
from torchvision.transforms.functional import pil_to_tensor
from torchvision.transforms.v2.functional import resize as torchvision_resize

from levelfield.core.errors import UsageError
from levelfield.data import transforms
from levelfield.data.transforms._boxes import random_resized_boxes
from levelfield.data.transforms._crop import Crop
from levelfield.data.transforms._resample import (
    crop_and_resize,
    crop_and_resize_by_matrices,
    resize_shorter,
)

RECIPES = {"mlrc": 227, "simple": 227, "base": 224, "red": 224, "big": 256, "adv": 224}


def random_image(height: int, width: int, *, seed: int = 0) -> Tensor:
    """Smooth colors with some noise: every crop of it looks different."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, 3, 6, 6, generator=generator) * 255
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bicubic")[0]
    noisy = smooth + 20 * torch.randn(3, height, width, generator=generator)
    return noisy.clamp(0, 255).to(torch.uint8)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_issues_names_are_registered():
    assert set(transforms.registry.names()) >= {"none", *RECIPES}


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_makes_one_uint8_batch_of_images_of_any_size(name, train):
    images = [random_image(300, 400), random_image(280, 256), random_image(256, 256), random_image(90, 60)]
    batch = transforms.create(name, train=train)(images, generator())
    side = RECIPES[name]
    assert batch.shape == (4, 3, side, side)
    assert batch.dtype == torch.uint8
    assert transforms.registry[name].card.size == side


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", RECIPES)
def test_the_result_is_a_function_of_the_generator_and_the_images(name, train):
    transform = transforms.create(name, train=train, size=32, resize=40)
    images = [random_image(50, 70, seed=i) for i in range(4)]
    originals = [image.clone() for image in images]
    first = transform(images, generator(3))
    assert torch.equal(first, transform(images, generator(3)))
    assert torch.equal(first, transform(images, generator(4))) is not train
    assert all(map(torch.equal, images, originals)), "the images themselves are left alone"


@pytest.mark.parametrize("name", RECIPES)
def test_no_transform_advances_the_global_generator(name):
    before = torch.get_rng_state()
    transforms.create(name, train=True, size=16, resize=16)([random_image(30, 20)], generator())
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("shape", [(375, 500), (500, 333), (223, 320), (256, 256)])
def test_evaluation_twins_give_the_pil_paths_pixels(name, shape):
    image = random_image(*shape)
    ours = transforms.create(name, train=False)([image], generator())[0]
    theirs = pil_transform(name, train=False, size=RECIPES[name])(to_pil(image))
    assert (ours.int() - theirs.int()).abs().max() <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPES)
def test_training_recipes_have_the_pil_paths_distribution(name):
    """Per draw: mean of each color and difference of halves, which move with box, flip and color."""
    image, size, draws = random_image(60, 80, seed=5), 24, 800
    transform = transforms.create(name, train=True, size=size, resize=size * 256 // 227)
    ours = features(transform([image] * draws, generator(11)))
    theirs = features(pil_batch(name, image, draws=draws, size=size, seed=12))
    for one, other in zip(ours.T, theirs.T, strict=True):
        assert ks_2samp(one, other).pvalue > 1e-3


def features(batch: Tensor) -> Tensor:
    pixels = batch.double()
    half = batch.shape[-1] // 2
    sides = pixels[..., :half].mean((1, 2, 3)) - pixels[..., half:].mean((1, 2, 3))
    return torch.cat([pixels.mean((2, 3)), sides[:, None], pixels.std((2, 3))], dim=1)


@pytest.mark.parametrize("shape", [(256, 256), (256, 384), (341, 256), (256, 2000), (2000, 256)])
@pytest.mark.parametrize("scale", [(0.16, 1.0), (0.08, 1.0), (1.0, 1.0)])
def test_boxes_are_drawn_as_torchvision_draws_them(shape, scale):
    draws = 1500
    ratio = (3 / 4, 4 / 3)
    ours = random_resized_boxes(torch.tensor([shape] * draws), generator(7), scale=scale, ratio=ratio)
    image = torch.empty(1, *shape)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(8)
        theirs = torch.tensor(
            [RandomResizedCrop.get_params(image, list(scale), list(ratio)) for _ in range(draws)]
        )
    for one, other in zip(ours.T, theirs.T, strict=True):
        assert ks_2samp(one, other).pvalue > 1e-3


def test_half_of_the_training_crops_are_mirrored():
    ramp = torch.arange(64, dtype=torch.uint8).expand(3, 64, 64)
    batch = transforms.create("simple", train=True, size=64, resize=64)([ramp] * 2000, generator())
    mirrored = (batch[:, 0, 0, 0] > batch[:, 0, 0, -1]).float().mean().item()
    assert mirrored == pytest.approx(0.5, abs=0.05)


def test_mlrc_can_follow_the_papers_text_instead_of_its_code():
    sizes = torch.tensor([[256, 256]] * 4000)
    sides = []
    for options in ({}, {"smallest": 0.0244}):
        crop = transforms.create("mlrc", train=True, **options)
        assert isinstance(crop, Crop)
        boxes, _ = crop.draw(sizes, generator())
        sides.append(boxes[:, 2:].double().prod(1).sqrt().min().item())
    assert sides == pytest.approx([0.4 * 256, 40], abs=3)


@pytest.mark.parametrize("name", ["mlrc", "simple", "red"])
def test_images_resized_beforehand_give_the_same_bits(name):
    """So that an image store changes no result."""
    images = [random_image(375, 500), random_image(200, 150), random_image(300, 290)]
    transform = transforms.create(name, train=True)
    prepared = [resize_shorter(image, 256) for image in images]
    assert torch.equal(transform(images, generator(9)), transform(prepared, generator(9)))


@pytest.mark.parametrize("shape", [(375, 500), (500, 375), (100, 37), (256, 300), (7, 7)])
def test_the_first_resize_is_pils(shape):
    image = random_image(*shape)
    ours = resize_shorter(image, 64)
    theirs = Resize(64)(to_pil(image))
    assert ours.shape[1:] == (theirs.height, theirs.width)
    assert (ours.int() - pil_to_tensor(theirs).int()).abs().max() <= 1


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_batched_way_of_the_gpu_agrees_to_one_gray_level(data):
    shapes = data.draw(st.lists(st.tuples(st.integers(2, 90), st.integers(2, 90)), min_size=1, max_size=4))
    images = [random_image(*shape, seed=i) for i, shape in enumerate(shapes)]
    boxes = []
    for height, width in shapes:
        box_height, box_width = data.draw(st.integers(1, height)), data.draw(st.integers(1, width))
        top = data.draw(st.integers(0, height - box_height))
        left = data.draw(st.integers(0, width - box_width))
        boxes.append([top, left, box_height, box_width])
    flips = torch.tensor(data.draw(st.lists(st.booleans(), min_size=len(shapes), max_size=len(shapes))))
    side = data.draw(st.integers(1, 40))
    one = crop_and_resize(images, torch.tensor(boxes), flips, side)
    other = crop_and_resize_by_matrices(images, torch.tensor(boxes), flips, side, device=torch.device("cpu"))
    assert (one.int() - other.int()).abs().max() <= 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", RECIPES)
def test_on_a_gpu_the_batch_is_made_there(name):
    images = [random_image(300, 400), random_image(280, 256)]
    batch = transforms.create(name, train=True, device="cuda")(images, generator())
    assert batch.is_cuda
    assert batch.shape == (2, 3, RECIPES[name], RECIPES[name])


def test_gray_images_pass_through_every_recipe():
    images = [random_image(300, 400)[:1]]
    for name in RECIPES:
        assert transforms.create(name, train=True)(images, generator()).shape[1] == 1


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "the batch is empty"),
        ([torch.zeros(3, 9, 9)], "uint8"),
        ([torch.zeros(9, 9, dtype=torch.uint8)], "C x H x W"),
        ([torch.zeros(3, 0, 9, dtype=torch.uint8)], "C x H x W"),
        ([random_image(9, 9), random_image(9, 9)[:1]], "1 and of 3 channels"),
    ],
)
def test_bad_images_are_refused(images, message):
    with pytest.raises(UsageError, match=message):
        transforms.create("mlrc", train=True)(images, generator())


def test_bad_options_are_refused():
    with pytest.raises(UsageError, match="does not fit images resized to 200"):
        transforms.create("simple", train=True, resize=200)
    with pytest.raises(UsageError, match="size = 0, but it takes a whole number from 1"):
        transforms.create("base", train=True, size=0)
    with pytest.raises(UsageError, match="smallest"):
        transforms.create("mlrc", train=True, smallest=0.0)
    with pytest.raises(UsageError, match='no parameter "sized"; did you mean "size"'):
        transforms.create("mlrc", train=True, sized=3)
    with pytest.raises(UsageError, match="did you mean"):
        transforms.create("mlcr", train=True)


def test_none_refuses_images_of_several_sizes():
    with pytest.raises(UsageError, match="same size"):
        transforms.create("none", train=True)([random_image(4, 4), random_image(4, 5)], generator())


def test_squash_keeps_the_whole_image_and_its_distortions_come_from_the_generator():
    images = [random_image(50, 70), random_image(90, 60, seed=1)]
    twin = transforms.create("squash", train=False, size=32)
    assert torch.equal(twin(images, generator(1)), twin(images, generator(2)))
    assert torch.equal(twin(images, generator())[0], torchvision_resize(images[0], [32, 32], antialias=True))
    distort = transforms.create("squash", train=True, size=32)
    before = torch.get_rng_state()
    first = distort(images, generator(3))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, distort(images, generator(3))) and not torch.equal(
        first, distort(images, generator(4))
    )
    with pytest.raises(UsageError, match="operations"):
        transforms.create("squash", train=True, operations=-1)
