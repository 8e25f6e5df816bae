"""A copy of a network that is quicker at inference: BatchNorm folded into the convolutions before it."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.fusion import fuse_conv_bn_eval

# Features must stay the same to 1e-4 of their size; far less is rounding, far more is a wrong fusion.
TOLERANCE = 1e-5


def fused(network: nn.Module, example: Tensor) -> nn.Module:
    """A copy of ``network`` for inference, with BatchNorm folded away and weights in channels-last order.

    Which BatchNorm follows which convolution is found by running the network once, so it works for any
    network in which that does not depend on the data. The result is compared with the original's; should
    it differ, BatchNorm is left where it was.

    Args:
        network: Takes ``example``; it is left as it is.
        example: A small batch of inputs.

    Example:
        >>> network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
        >>> fused(network, torch.rand(2, 3, 5, 5))
        Sequential(
          (0): Conv2d(3, 4, kernel_size=(1, 1), stride=(1, 1))
          (1): Identity()
        )
    """
    plain = copy.deepcopy(network).eval()
    quick = copy.deepcopy(plain)
    names = {module: name for name, module in quick.named_modules()}
    for conv, norm in _followers(quick, example):
        quick.set_submodule(names[conv], fuse_conv_bn_eval(conv, norm), strict=True)
        quick.set_submodule(names[norm], _what_is_left(norm), strict=True)
    quick = quick.to(memory_format=torch.channels_last)
    with torch.inference_mode():
        expected, got = plain(example), quick(example)
    same = (got - expected).abs().amax() <= TOLERANCE * expected.abs().amax()
    return quick if same else plain.to(memory_format=torch.channels_last)


def _followers(network: nn.Module, example: Tensor) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """The pairs of a convolution and the BatchNorm that takes its output, untouched, and nothing else."""
    made: dict[int, tuple[nn.Conv2d, Tensor, int]] = {}
    calls: dict[nn.Module, int] = {}
    pairs: list[tuple[nn.Conv2d, nn.BatchNorm2d]] = []

    def after_conv(conv: nn.Conv2d, _: tuple[Tensor, ...], output: Tensor) -> None:
        calls[conv] = calls.get(conv, 0) + 1
        made[id(output)] = (conv, output, output._version)  # holding it keeps its id from being reused

    def before_norm(norm: nn.BatchNorm2d, inputs: tuple[Tensor, ...]) -> None:
        calls[norm] = calls.get(norm, 0) + 1
        conv, output, version = made.get(id(inputs[0]), (None, None, 0))
        if conv is not None and output is not None and output._version == version:
            pairs.append((conv, norm))

    hooks = [m.register_forward_hook(after_conv) for m in network.modules() if isinstance(m, nn.Conv2d)]
    hooks += [
        m.register_forward_pre_hook(before_norm)
        for m in network.modules()
        if isinstance(m, nn.BatchNorm2d) and m.track_running_stats
    ]
    try:
        with torch.no_grad():  # not inference mode, which does not count the versions of a tensor
            network(example)
    finally:
        for hook in hooks:
            hook.remove()
    return [(conv, norm) for conv, norm in pairs if calls[conv] == calls[norm] == 1]


def _what_is_left(norm: _BatchNorm) -> nn.Module:
    """What a folded BatchNorm still has to do: in timm it carries the activation that follows."""
    rest = [layer for name in ("drop", "act") if isinstance(layer := getattr(norm, name, None), nn.Module)]
    return nn.Sequential(*rest) if rest else nn.Identity()
