"""The papers' transforms as the authors wrote them: torchvision on PIL images, with the global generator."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision import transforms as T


def pil_transform(name: str, *, train: bool, size: int, resize: int = 256) -> T.Compose:
    """The plain pipeline of recipe ``name``; ends in a uint8 tensor."""
    if not train:
        steps = [T.Resize(resize), T.CenterCrop(size)]
    elif name in {"simple", "red"}:
        steps = [T.Resize(resize), T.RandomCrop(size), T.RandomHorizontalFlip(0.5)]
    elif name == "mlrc":
        steps = [T.Resize(resize), T.RandomResizedCrop(size, scale=(0.16, 1)), T.RandomHorizontalFlip(0.5)]
    elif name == "adv":
        color = [T.RandomGrayscale(p=0.2), T.ColorJitter(0.2, 0.2, 0.2, 0.2)]
        steps = [T.RandomResizedCrop(size), *color, T.RandomHorizontalFlip(0.5)]
    else:
        steps = [T.RandomResizedCrop(size), T.RandomHorizontalFlip(0.5)]
    return T.Compose([*steps, T.PILToTensor()])


def to_pil(image: Tensor) -> Image.Image:
    """A uint8 tensor C x H x W as a PIL image."""
    return Image.fromarray(np.ascontiguousarray(image.permute(1, 2, 0).numpy()))


def pil_batch(name: str, image: Tensor, *, draws: int, size: int, seed: int) -> Tensor:
    """Many training draws of one image by the plain pipeline, draws x C x size x size."""
    pipeline = pil_transform(name, train=True, size=size, resize=size * 256 // 227)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.stack([pipeline(to_pil(image)) for _ in range(draws)])
