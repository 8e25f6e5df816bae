"""Faster copy of a network for inference: BatchNorm folded into the preceding convolutions."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils.fusion import fuse_conv_bn_eval

# Features may differ by 1e-4 of their size; rounding is far below this limit, a wrong fold far above.
TOLERANCE = 1e-5


def fold_batchnorm(network: nn.Module, example: Tensor) -> nn.Module:
    """Return a copy of ``network`` for inference, with BatchNorm folded and channels-last weights.

    The network is run once to find the BatchNorm layer after each convolution. So it works for any network
    whose control flow does not depend on the data. The output is compared with the original's; if they
    differ, BatchNorm is not folded.

    Args:
        network: Network that accepts ``example``; it is not changed.
        example: A small batch of inputs.

    Example:
        >>> network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
        >>> fold_batchnorm(network, torch.rand(2, 3, 5, 5))
        Sequential(
          (0): Conv2d(3, 4, kernel_size=(1, 1), stride=(1, 1))
          (1): Identity()
        )
    """
    # The caller's inference mode must end here: its tensors have no versions, and pairs are found by them.
    with torch.inference_mode(False), torch.no_grad():
        return _fold(network, example.clone() if example.is_inference() else example)


def _fold(network: nn.Module, example: Tensor) -> nn.Module:
    plain = copy.deepcopy(network).eval()
    quick = copy.deepcopy(plain)
    names = {module: name for name, module in quick.named_modules()}
    for conv, norm in _find_conv_norm_pairs(quick, example):
        quick.set_submodule(names[conv], fuse_conv_bn_eval(conv, norm), strict=True)
        quick.set_submodule(names[norm], _replace_norm(norm), strict=True)
    quick = quick.to(memory_format=torch.channels_last)
    expected, got = plain(example), quick(example)
    same = (got - expected).abs().amax() <= TOLERANCE * expected.abs().amax()
    return quick if same else plain.to(memory_format=torch.channels_last)


def _find_conv_norm_pairs(network: nn.Module, example: Tensor) -> list[tuple[nn.Conv2d, nn.BatchNorm2d]]:
    """Return pairs of a convolution and the BatchNorm that takes its unchanged output; each runs once."""
    made: dict[int, tuple[nn.Conv2d, Tensor, int]] = {}
    calls: dict[nn.Module, int] = {}
    pairs: list[tuple[nn.Conv2d, nn.BatchNorm2d]] = []

    def after_conv(conv: nn.Conv2d, _: tuple[Tensor, ...], output: Tensor) -> None:
        calls[conv] = calls.get(conv, 0) + 1
        made[id(output)] = (conv, output, output._version)  # the reference keeps the id from being reused

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
        network(example)
    finally:
        for hook in hooks:
            hook.remove()
    return [(conv, norm) for conv, norm in pairs if calls[conv] == calls[norm] == 1]


def _replace_norm(norm: _BatchNorm) -> nn.Module:
    """Return the replacement of a folded BatchNorm: Identity, or the activation that timm stores in it."""
    rest = [layer for name in ("drop", "act") if isinstance(layer := getattr(norm, name, None), nn.Module)]
    return nn.Sequential(*rest) if rest else nn.Identity()
