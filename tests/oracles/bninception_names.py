"""The layer names of the public weights file of BN-Inception, written out."""

from __future__ import annotations

_FULL = ["1x1", "3x3_reduce", "3x3", "double_3x3_reduce", "double_3x3_1", "double_3x3_2", "pool_proj"]
_HALVING = ["3x3_reduce", "3x3", "double_3x3_reduce", "double_3x3_1", "double_3x3_2"]
_BLOCKS = {name: _FULL for name in ("3a", "3b", "4a", "4b", "4c", "4d", "5a", "5b")}
_BLOCKS |= {"3c": _HALVING, "4e": _HALVING}

LAYERS = ["conv1_7x7_s2", "conv2_3x3_reduce", "conv2_3x3"]
LAYERS += [f"inception_{block}_{layer}" for block, layers in _BLOCKS.items() for layer in layers]
