"""Crop transforms of the papers; in evaluation all resize the shorter side and crop the center."""

from __future__ import annotations

from levelfield.core.options import ImageSize
from levelfield.data.transforms import register
from levelfield.data.transforms._crop import Crop

REALITY_CHECK = "A Metric Learning Reality Check"
REVISITING = "Revisiting Training Strategies and Generalization Performance in Deep Metric Learning"


@register("mlrc", size=227, paper=REALITY_CHECK, year=2020)
def mlrc(
    *,
    train: bool,
    size: ImageSize = 227,
    resize: ImageSize = 256,
    smallest: float = 0.16,
    device: str = "cpu",
) -> Crop:
    """Reality check: shorter side to 256, random resized crop to 227 of 16-100 % of the area, flip.

    The paper's text states crop sizes between 40 and 256. The code behind its tables uses 0.16, about 40 /
    256, but as a fraction of the *area*: the side of a crop is at least about 40 % of the image's side (102
    of 256), not 16 %. ``smallest=0.0244`` follows the text.

    Example:
        >>> mlrc(train=True).smallest, mlrc(train=False).crop
        (0.16, 'center')
    """
    if not train:
        return Crop(size=size, crop="center", first_resize=resize, device=device)
    return Crop(size=size, crop="resized", first_resize=resize, smallest=smallest, device=device)


@register("simple", size=227, paper=REALITY_CHECK, year=2020)
def simple(*, train: bool, size: ImageSize = 227, resize: ImageSize = 256, device: str = "cpu") -> Crop:
    """Stated transform of most papers: shorter side to 256, random crop of 227, flip.

    Example:
        >>> simple(train=False).crop
        'center'
    """
    return Crop(size=size, crop="random" if train else "center", first_resize=resize, device=device)


@register("base", size=224, paper=REVISITING, year=2020)
def base(*, train: bool, size: ImageSize = 224, resize: ImageSize = 256, device: str = "cpu") -> Crop:
    """Revisiting, Base: random resized crop to 224 of 8-100 % of the original image, flip.

    Example:
        >>> base(train=True).first_resize is None, base(train=False).first_resize
        (True, 256)
    """
    if not train:
        return Crop(size=size, crop="center", first_resize=resize, device=device)
    return Crop(size=size, crop="resized", first_resize=None, device=device)


@register("red", size=224, paper=REVISITING, year=2020)
def red(*, train: bool, size: ImageSize = 224, resize: ImageSize = 256, device: str = "cpu") -> Crop:
    """Revisiting, Red.: shorter side to 256, random crop of 224, flip.

    Example:
        >>> red(train=True).size
        224
    """
    return Crop(size=size, crop="random" if train else "center", first_resize=resize, device=device)


@register("big", size=256, paper=REVISITING, year=2020)
def big(*, train: bool, size: ImageSize = 256, resize: ImageSize = 256, device: str = "cpu") -> Crop:
    """Revisiting, Big: as Base, with crops of 256.

    Example:
        >>> big(train=True).size
        256
    """
    return base(train=train, size=size, resize=resize, device=device)


@register("adv", size=224, paper=REVISITING, year=2020, renamed={"grey": "gray"})  # old spelling
def adv(
    *,
    train: bool,
    size: ImageSize = 224,
    resize: ImageSize = 256,
    jitter: float = 0.2,
    gray: float = 0.2,
    device: str = "cpu",
) -> Crop:
    """Revisiting, Adv.: as Base, then a fifth of the images gray and the colors jittered by up to 20 %.

    The paper's text lists "color jittering, changes in brightness and hue" without numbers. The numbers,
    contrast, saturation and the gray images are from its public code.

    Example:
        >>> adv(train=True).jitter, adv(train=False).jitter
        (0.2, 0.0)
    """
    if not train:
        return base(train=False, size=size, resize=resize, device=device)
    return Crop(size=size, crop="resized", first_resize=None, jitter=jitter, gray=gray, device=device)
