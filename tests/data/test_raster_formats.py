"""Only raster formats are opened, whatever a file is called and whichever library reads it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import EpsImagePlugin, Image, PngImagePlugin

from levelfield.core.errors import UsageError
from levelfield.data import ImageError, decode_image, load, read_image
from levelfield.data._image_files import RASTER_FORMATS, only_raster_formats, unreadable_reason
from levelfield.data.capture_date import capture_date

POSTSCRIPT = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 8 8
%%EndComments
(program) (w) file closefile
showpage
%%EOF
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """List of calls of Ghostscript; the program itself is not needed."""
    calls: list[object] = []

    def start(*arguments: object, **_: object) -> object:
        calls.append(arguments)
        return Image.new("RGB", (8, 8)).im

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", start)
    return calls


def test_a_program_named_photo_is_not_started(tmp_path: Path, started: list[object]) -> None:
    photo = tmp_path / "a" / "photo.jpg"
    photo.parent.mkdir()
    photo.write_bytes(POSTSCRIPT)
    for read in (lambda: read_image(photo), lambda: decode_image(io.BytesIO(POSTSCRIPT), name="upload")):
        with pytest.raises(ImageError, match="not an image in a known format"):
            read()
    with pytest.raises(ImageError, match="not an image in a known format"):
        load("folder", root=str(tmp_path)).images.read(0)
    assert not started
    Image.open(photo).load()  # the trap works
    assert started


def test_libraries_that_open_files_themselves_are_restricted(tmp_path: Path, started: list[object]) -> None:
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        Image.new("RGB", (8, 8)).save(tmp_path / part / "good.png")
        (tmp_path / part / "photo.jpg").write_bytes(POSTSCRIPT)
    images = load("torchvision:ImageFolder", root=str(tmp_path)).images
    assert images.read(0).shape == (3, 8, 8)
    with pytest.raises(ImageError, match="not in a known format"):
        images.read(1)
    (tmp_path / "a" / "photo.jpg").write_bytes((tmp_path / "a" / "good.png").read_bytes()[:42])
    with pytest.raises(ImageError, match="image 1 is damaged or truncated"):
        images.read(1)
    before = Image.open
    with only_raster_formats(), only_raster_formats():
        assert Image.open(str(tmp_path / "a" / "good.png")).size == (8, 8)
    assert Image.open is before and not started


def test_images_of_the_hub_are_restricted(tmp_path: Path, started: list[object]) -> None:
    datasets = pytest.importorskip("datasets")
    png = io.BytesIO()
    Image.new("RGB", (8, 8)).save(png, "PNG")
    cells = [{"bytes": png.getvalue(), "path": None}, {"bytes": POSTSCRIPT, "path": "photo.jpg"}]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    made = datasets.Dataset.from_dict({"image": cells, "label": [0, 1]}, features=features)
    made.save_to_disk(str(tmp_path / "set"))
    images = load(f"hf:{tmp_path / 'set'}").images
    assert images.read(0).shape == (3, 8, 8)
    with pytest.raises(ImageError, match="not an image in a known format"):
        images.read(1)
    assert not started


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("place", ["another column", "the label", "a list", "a structure"])
def test_no_column_of_the_hub_starts_a_program(
    tmp_path: Path, started: list[object], place: str, streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("LEVELFIELD_CACHE", str(tmp_path / "cache"))
    png = io.BytesIO()
    Image.new("RGB", (8, 8)).save(png, "PNG")
    good, bad = {"bytes": png.getvalue(), "path": None}, {"bytes": POSTSCRIPT, "path": "photo.jpg"}
    kind, number = datasets.Image(), datasets.Value("int64")
    features = {"image": kind, "label": number}
    columns = {"image": [good, good], "label": [0, 1]}
    match place:
        case "another column":
            features["other"], columns["other"] = kind, [bad, bad]
        case "the label":
            features["label"], columns["label"] = kind, [bad, bad]
        case "a list":
            features["image"], columns["image"] = datasets.Sequence(kind), [[bad], [bad]]
        case "a structure":
            features["image"], columns["image"] = {"a": kind}, [{"a": bad}, {"a": bad}]
    made = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    made.save_to_disk(str(tmp_path / "set"))
    if place == "another column":
        images = load(f"hf:{tmp_path / 'set'}", streaming=streaming).images
        assert images.read(0).shape == (3, 8, 8)
    else:
        with pytest.raises(UsageError, match=r"does not hold (an image|one class per image); set the option"):
            load(f"hf:{tmp_path / 'set'}", streaming=streaming)
    assert not started


@pytest.mark.parametrize("name", ["BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP"])
def test_the_formats_of_photos_are_read(name: str) -> None:
    assert name in RASTER_FORMATS
    stream = io.BytesIO()
    Image.new("RGB", (4, 2)).save(stream, name)
    assert decode_image(stream, name="photo").shape == (3, 2, 4)


@pytest.mark.parametrize(
    "error", [RuntimeError("Missing or empty image item"), TypeError("x"), ZeroDivisionError()]
)
def test_any_error_of_a_decoder_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(_: Image.Image) -> None:
        raise error

    photo = tmp_path / "photo.png"
    Image.new("RGB", (4, 2)).save(photo)
    monkeypatch.setattr(PngImagePlugin.PngImageFile, "load", fail)
    monkeypatch.setattr(PngImagePlugin.PngImageFile, "getexif", fail)
    with pytest.raises(ImageError, match="damaged or truncated"):
        read_image(photo)
    assert "damaged" in unreadable_reason(photo)
    assert not capture_date(photo)
