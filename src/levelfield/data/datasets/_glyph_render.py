"""Render characters for Glyphs: without jitter, or with seeded jitter as one sample."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from levelfield.core.errors import RunError

GlyphImage = npt.NDArray[np.uint8]

RENDERER_VERSION = 2  # part of the cache key; increment it if pixels may change
MIN_FACES = 2
_POINTS = 72  # font size of outlines, before they are scaled down
_FACES = (
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
)
_TEX_FACES = (
    "cmr10",
    "cmb10",
    "cmss10",
    "cmti10",
    "cmtt10",
)  # TeX encoding: correct for letters and digits only


def font_directory() -> Path:
    """Return the directory of the fonts that matplotlib ships."""
    import matplotlib

    return Path(matplotlib.get_data_path()) / "fonts" / "ttf"


def font_files() -> list[Path]:
    """Return the existing font files of Glyphs, in a fixed order."""
    files = [font_directory() / f"{face}.ttf" for face in (*_FACES, *_TEX_FACES)]
    return [file for file in files if file.is_file()]


@functools.cache
def faces_with_glyph(character: str) -> tuple[Path, ...]:
    """Return the font files with a glyph for ``character`` in their character map."""
    faces = tuple(file for file in font_files() if _has_glyph(file, character))
    if len(faces) < MIN_FACES:
        raise RunError(
            f"only {len(faces)} of the fonts in {font_directory()} draw U+{ord(character):04X}, but Glyphs "
            f"needs {MIN_FACES}; reinstall matplotlib with its fonts"
        )
    return faces


def _has_glyph(file: Path, character: str) -> bool:
    if file.stem in _TEX_FACES and not (character.isascii() and character.isalnum()):
        return False
    return bool(_character_map(file).get(ord(character), 0)) and _outline(file, character) is not None


@functools.cache
def _character_map(file: Path) -> dict[int, int]:
    from matplotlib.ft2font import FT2Font

    return dict(FT2Font(str(file)).get_charmap())


@functools.cache
def _font(file: Path) -> ImageFont.FreeTypeFont:
    # The basic layout is the same on every machine; the other one depends on an optional library.
    return ImageFont.truetype(str(file), _POINTS, layout_engine=ImageFont.Layout.BASIC)


@functools.lru_cache(maxsize=32_768)
def _outline(file: Path, character: str) -> Image.Image | None:
    """Return the character in white on black, cropped to its ink; None if it is blank."""
    font = _font(file)
    left, top, right, bottom = (math.floor(edge) for edge in font.getbbox(character))
    canvas = Image.new("L", (max(1, right - left + 2), max(1, bottom - top + 2)))
    ImageDraw.Draw(canvas).text((1 - left, 1 - top), character, fill=255, font=font)
    box = canvas.getbbox()
    return canvas.crop(box) if box else None


def render_clean(file: Path, character: str, *, size: int = 32) -> GlyphImage:
    """Return the character without jitter: white on black, centered, three quarters of ``size`` long."""
    return np.asarray(_warp(_require_outline(file, character), size, np.eye(2), (0.0, 0.0)))


def render_sample(file: Path, character: str, *, size: int, generator: np.random.Generator) -> GlyphImage:
    """Return a jittered image (size x size): stroke, affine map, blur, ink and paper shades, noise."""
    outline = _require_outline(file, character)
    width = generator.choice([-3, 0, 0, 3])
    if width:
        outline = _stroke(outline, int(width))
    turn, shear = generator.uniform(-0.15, 0.15), generator.uniform(-0.2, 0.2)
    scale = generator.uniform(0.85, 1.1) * np.exp(generator.uniform(-0.1, 0.1, size=2))
    shift = generator.uniform(-0.07, 0.07, size=2) * size
    rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    shape = rotation @ np.array([[1.0, shear], [0.0, 1.0]]) @ np.diag(scale)
    image = _warp(outline, size, shape, (float(shift[0]), float(shift[1])))
    image = image.filter(ImageFilter.GaussianBlur(generator.uniform(0.0, 0.025) * size))
    paper, ink = generator.uniform(0, 60), generator.uniform(160, 255)
    noise = generator.normal(0.0, generator.uniform(1.0, 12.0), size=(size, size))
    shade = paper + (ink - paper) * np.asarray(image, dtype=np.float64) / 255 + noise
    return np.rint(shade).clip(0, 255).astype(np.uint8)


def _require_outline(file: Path, character: str) -> Image.Image:
    outline = _outline(file, character)
    if outline is None:
        raise RunError(f"{file.name} has no outline for U+{ord(character):04X}; reinstall matplotlib")
    return outline


def _stroke(outline: Image.Image, width: int) -> Image.Image:
    """Thicken the strokes by ``width - 1`` pixels of the outline, or thin them if ``width`` is negative."""
    if width < 0:
        thin = outline.filter(ImageFilter.MinFilter(-width))
        return thin if thin.getbbox() else outline
    padded = Image.new("L", (outline.width + width, outline.height + width))
    padded.paste(outline, (width // 2, width // 2))
    return padded.filter(ImageFilter.MaxFilter(width))


def _warp(
    outline: Image.Image, size: int, shape: npt.NDArray[np.float64], shift: Sequence[float]
) -> Image.Image:
    """Return ``outline`` in a square image, after the linear map ``shape`` about its center."""
    fine = 2 * size  # rendered at twice the size, then averaged, so that thin strokes do not break
    zoom = 0.75 * fine / max(outline.size)
    inverse = np.linalg.inv(shape * zoom)
    center = np.array(outline.size) / 2
    offset = center - inverse @ (np.array([fine / 2, fine / 2]) + 2 * np.asarray(shift))
    matrix = (*inverse[0], offset[0], *inverse[1], offset[1])
    large = outline.transform((fine, fine), Image.Transform.AFFINE, matrix, Image.Resampling.BICUBIC)
    return large.reduce(2)
