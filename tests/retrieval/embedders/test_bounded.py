"""Untrusted images are decoded within limits, and the decoder survives a crash of its process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import torch
from PIL import Image
from tests.oracles import bad_images

from levelfield.data import ImageError
from levelfield.retrieval.embedders import decode_pixels
from levelfield.retrieval.embedders.bounded import BoundedDecoder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def decoder() -> Iterator[BoundedDecoder]:
    with BoundedDecoder(max_bytes=1_000_000, max_pixels=3_000_000, memory=256 << 20) as made:
        yield made


@pytest.mark.parametrize("name", bad_images.readable())
def test_pixels_equal_those_without_it(decoder: BoundedDecoder, name: str) -> None:
    data = bad_images.readable()[name]
    assert torch.equal(decoder.decode(data), decode_pixels(data))


@pytest.mark.parametrize("name", bad_images.unreadable())
def test_unreadable_images_get_one_line(decoder: BoundedDecoder, name: str) -> None:
    data, reason = bad_images.unreadable()[name]
    with pytest.raises(ImageError) as caught:
        decoder.decode(data)
    assert reason in str(caught.value)


def test_limits_of_size_and_pixels(decoder: BoundedDecoder) -> None:
    with pytest.raises(ImageError, match="the limit is 1,000,000"):
        decoder.decode(bytes(1_000_001))
    large = bad_images.encoded(Image.new("L", (2000, 2000)), "PNG")
    with pytest.raises(ImageError, match="the limit is 3,000,000"):
        decoder.decode(large)


def test_an_image_that_needs_too_much_memory_is_rejected() -> None:
    hungry = bad_images.encoded(Image.new("RGBA", (4000, 4000)), "PNG")
    with BoundedDecoder(memory=40 << 20) as narrow:
        with pytest.raises(ImageError, match="memory"):
            narrow.decode(hungry)
        assert narrow.decode(bad_images.readable()["palette.png"]).shape == (3, 30, 40)


def test_a_killed_process_is_replaced(decoder: BoundedDecoder) -> None:
    data = bad_images.readable()["cmyk.jpg"]
    wanted = decoder.decode(data)
    assert decoder._worker is not None
    process = decoder._worker[0]
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert torch.equal(decoder.decode(data), wanted)


def test_an_image_that_takes_too_long_is_rejected() -> None:
    with BoundedDecoder(seconds=0.0) as hasty:
        with pytest.raises(ImageError, match="took more than 0 seconds"):
            hasty.decode(bad_images.encoded(bad_images.noise(size=(1500, 1500)), "PNG"))
        hasty.seconds = 60
        assert hasty.decode(bad_images.readable()["palette.png"]).shape == (3, 30, 40)
