"""Strangers' pictures are decoded within limits, and the decoder survives what ends its process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
import torch
from PIL import Image

from levelfield.data import ImageError
from levelfield.embedders import pixels_of
from levelfield.embedders.bounded import BoundedDecoder
from oracles import bad_pictures


@pytest.fixture(scope="module")
def decoder() -> Iterator[BoundedDecoder]:
    with BoundedDecoder(max_bytes=1_000_000, max_pixels=3_000_000, memory=256 << 20) as made:
        yield made


@pytest.mark.parametrize("name", bad_pictures.readable())
def test_pictures_come_out_as_without_it(decoder: BoundedDecoder, name: str) -> None:
    data = bad_pictures.readable()[name]
    assert torch.equal(decoder.decode(data), pixels_of(data))


@pytest.mark.parametrize("name", bad_pictures.unreadable())
def test_what_is_no_picture_gets_one_line(decoder: BoundedDecoder, name: str) -> None:
    data, reason = bad_pictures.unreadable()[name]
    with pytest.raises(ImageError) as caught:
        decoder.decode(data)
    assert reason in str(caught.value)


def test_limits_of_size_and_pixels(decoder: BoundedDecoder) -> None:
    with pytest.raises(ImageError, match="the limit is 1,000,000"):
        decoder.decode(bytes(1_000_001))
    large = bad_pictures.encoded(Image.new("L", (2000, 2000)), "PNG")
    with pytest.raises(ImageError, match="the limit is 3,000,000"):
        decoder.decode(large)


def test_a_picture_that_needs_too_much_memory_is_refused() -> None:
    hungry = bad_pictures.encoded(Image.new("RGBA", (4000, 4000)), "PNG")
    with BoundedDecoder(memory=40 << 20) as narrow:
        with pytest.raises(ImageError, match="memory"):
            narrow.decode(hungry)
        assert narrow.decode(bad_pictures.readable()["palette.png"]).shape == (3, 30, 40)


def test_a_killed_process_is_replaced(decoder: BoundedDecoder) -> None:
    data = bad_pictures.readable()["cmyk.jpg"]
    wanted = decoder.decode(data)
    assert decoder._worker is not None
    process = decoder._worker[0]
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert torch.equal(decoder.decode(data), wanted)


def test_a_picture_that_takes_too_long_is_given_up() -> None:
    with BoundedDecoder(seconds=0.0) as hasty:
        with pytest.raises(ImageError, match="took more than 0 seconds"):
            hasty.decode(bad_pictures.encoded(bad_pictures.noise(size=(1500, 1500)), "PNG"))
        hasty.seconds = 60
        assert hasty.decode(bad_pictures.readable()["palette.png"]).shape == (3, 30, 40)
