"""Image files: documented conversions for odd ones, one clear line for bad ones."""

from __future__ import annotations

import os
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from levelfield.core.errors import RunError
from levelfield.data._image_files import FileImages, ImageError, read_image, to_rgb


def corner(file: Path) -> list[int]:
    image = read_image(file)
    assert image.shape[0] == 3 and image.permute(1, 2, 0).is_contiguous()
    return image[:, 0, 0].tolist()


def saved(folder: Path, image: Image.Image, name: str = "x.png", **options: Any) -> Path:
    image.save(folder / name, **options)
    return folder / name


def test_rgb_comes_out_as_it_is(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (5, 7, 3), dtype=np.uint8)
    image = read_image(saved(tmp_path, Image.fromarray(pixels)))
    assert np.array_equal(image.permute(1, 2, 0).numpy(), pixels)


def test_grayscale_bilevel_and_palette_become_rgb(tmp_path: Path) -> None:
    assert corner(saved(tmp_path, Image.new("L", (4, 3), 77))) == [77, 77, 77]
    assert corner(saved(tmp_path, Image.new("1", (4, 3), 1))) == [255, 255, 255]
    palette = Image.new("RGB", (4, 3), (10, 20, 30)).quantize(4)
    assert palette.mode == "P"
    assert corner(saved(tmp_path, palette)) == [10, 20, 30]


def test_cmyk_becomes_rgb(tmp_path: Path) -> None:
    red = corner(saved(tmp_path, Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "x.jpg", quality=95))
    assert red[0] > 240 and max(red[1:]) < 15


def test_sixteen_bits_are_scaled_not_cut_off(tmp_path: Path) -> None:
    wide = np.array([[0, 257, 32768, 65535]], dtype=np.uint16)
    for name in ("x.png", "x.tif"):
        image = read_image(saved(tmp_path, Image.fromarray(wide), name))
        assert image[0, 0].tolist() == [0, 1, 128, 255]


def test_transparent_parts_are_laid_on_white(tmp_path: Path) -> None:
    assert corner(saved(tmp_path, Image.new("RGBA", (2, 2), (9, 9, 9, 0)))) == [255, 255, 255]
    assert corner(saved(tmp_path, Image.new("LA", (2, 2), (9, 255)))) == [9, 9, 9]
    hole = Image.new("P", (2, 2), 0)
    hole.putpalette([1, 2, 3] * 256)
    assert corner(saved(tmp_path, hole, transparency=0)) == [255, 255, 255]


def test_the_exif_orientation_is_applied(tmp_path: Path) -> None:
    pixels = np.zeros((8, 16, 3), dtype=np.uint8)
    pixels[:, :8] = 255
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: show it rotated by 90 degrees clockwise
    file = saved(tmp_path, Image.fromarray(pixels), "x.jpg", exif=exif, quality=95)
    image = read_image(file)
    assert image.shape == (3, 16, 8)
    assert image[:, :6].min() > 200 and image[:, 10:].max() < 50


def test_of_an_animation_the_first_frame_is_taken(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (4, 4), color) for color in ("red", "blue")]
    file = saved(tmp_path, frames[0], "x.gif", save_all=True, append_images=frames[1:])
    assert corner(file) == [255, 0, 0]


def test_pixels_without_an_agreed_range_are_refused(tmp_path: Path) -> None:
    file = saved(tmp_path, Image.fromarray(np.ones((2, 2), dtype=np.float32)), "x.tif")
    with pytest.raises(ImageError, match=r"x\.tif: mode F has no standard value range; save the"):
        read_image(file)


def test_empty_truncated_foreign_and_missing_files_are_named(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    for name in ("x.jpg", "x.png", "x.bmp"):
        whole = saved(tmp_path, Image.fromarray(noise), name).read_bytes()
        for cut in (len(whole) // 2, 60):
            (tmp_path / name).write_bytes(whole[:cut])
            with pytest.raises(ImageError, match=f"{name}: (damaged or truncated|not an image)"):
                read_image(tmp_path / name)
    (tmp_path / "x.jpg").write_bytes(b"")
    with pytest.raises(ImageError, match=r"x\.jpg: the file is empty \(0 bytes\); fetch it again"):
        read_image(tmp_path / "x.jpg")
    (tmp_path / "x.jpg").write_text("<html>404</html>")
    with pytest.raises(ImageError, match=r"x\.jpg: not an image in a known format"):
        read_image(tmp_path / "x.jpg")
    with pytest.raises(ImageError, match="No such file"):
        read_image(tmp_path / "none.jpg")
    with pytest.raises(ImageError, match="not a regular file"):
        read_image(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_does_not_make_the_reader_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jpg")
    with pytest.raises(ImageError, match="not a regular file"):
        read_image(tmp_path / "x.jpg")


@pytest.mark.parametrize("side", [9_000, 60_000])
def test_an_image_bomb_is_refused_before_it_is_decoded(side: int, tmp_path: Path) -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    with pytest.raises(ImageError, match="possibly an image bomb"):
        read_image(tmp_path / "x.png")


def test_the_error_of_one_image_is_one_line_and_a_failure() -> None:
    with pytest.raises(RunError) as caught:
        read_image(Path("nowhere.jpg"))
    assert "\n" not in str(caught.value) and caught.value.exit_code == 1


def test_a_selection_knows_only_its_files_and_travels_to_other_processes(tmp_path: Path) -> None:
    for k in range(3):
        saved(tmp_path, Image.new("L", (2, 2), k), f"{k}.png")
    part = FileImages(tmp_path, ["0.png", "1.png", "2.png"]).select(np.array([2, 0]))
    assert part.paths == ("2.png", "0.png")
    copy = pickle.loads(pickle.dumps(part))
    assert [int(copy.read(row)[0, 0, 0]) for row in range(len(copy))] == [2, 0]


def test_any_mode_pillow_knows_is_converted_or_refused() -> None:
    for mode in (
        "1",
        "L",
        "LA",
        "P",
        "PA",
        "RGB",
        "RGBA",
        "RGBa",
        "RGBX",
        "CMYK",
        "YCbCr",
        "HSV",
        "I;16",
    ):
        assert to_rgb(Image.new(mode, (3, 2))).mode == "RGB", mode
