"""Any network of timm, as ``timm:NAME``: ViT, ConvNeXt, DINOv2, EfficientNet ..."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from levelfield.errors import UsageError, did_you_mean
from levelfield.hubs import no_vain_retries
from levelfield.models import registry
from levelfield.models._trunk import InputRecipe, StateDict, Trunk, TrunkCard
from levelfield.registry import Entry, package_source


@registry.family("timm")
def resolve(name: str) -> Entry[TrunkCard]:
    """The entry of timm's network ``name``; an error with a suggestion if timm has none."""
    import timm

    if not timm.is_model(name):
        raise UsageError(f'timm has no network "{name}"{did_you_mean(name, timm.list_models())}')

    def create(*, in_channels: int = 3, **options: Any) -> Trunk:
        return timm_trunk(name, in_channels=in_channels, **options)

    config = timm.get_pretrained_cfg(name)
    card = TrunkCard(
        name=f"timm:{name}",
        summary=f"{name} of timm.",
        image_size=config.input_size[-1] if config else 0,
        pretrained=bool(config and config.has_weights),
    )
    return Entry(create, card, package_source("timm"))


def timm_trunk(name: str, /, *, in_channels: int = 3, **options: Any) -> Trunk:
    """The trunk ``timm:name``; ``options`` go to ``timm.create_model`` (``img_size``, ``drop_rate`` ...).

    A convolutional network whose head is a plain mean gives maps, so that any pooling can follow; all
    others (class tokens, a norm after the mean, attention pooling) pool in the way they were trained to.

    Example:
        >>> trunk = timm_trunk("resnet10t")
        >>> trunk.num_features, trunk.spatial
        (512, True)
    """
    import timm

    def create(*, pretrained: bool) -> nn.Module:
        network: nn.Module = timm.create_model(
            name, pretrained=pretrained, num_classes=0, in_chans=in_channels, **options
        )
        return network

    def download() -> StateDict:
        with no_vain_retries():
            state: StateDict = create(pretrained=True).state_dict()
        return state

    try:
        network: Any = create(pretrained=False)
    except (TypeError, RuntimeError, ValueError) as error:
        raise UsageError(f"timm:{name} cannot be made with the options {options}: {error}") from error
    config = network.pretrained_cfg
    spatial = _pools_by_plain_mean(network)
    if spatial:
        network.reset_classifier(0, "")
    return Trunk(
        network,
        name=f"timm:{name}",
        num_features=network.num_features if spatial else _width(network),
        spatial=spatial,
        inputs=InputRecipe(mean=config["mean"], std=config["std"]) if in_channels == 3 else InputRecipe(),
        image_size=_only_size(config, options),
        download=download if config.get("url") or config.get("hf_hub_id") else None,
        adapt=_dropper(config.get("classifier") or ()),
    )


def _width(network: Any) -> int:
    """How many features the network's own pooling gives; a few networks do not say."""
    return int(getattr(network, "head_hidden_size", network.num_features))


def _pools_by_plain_mean(network: Any) -> bool:
    """Whether the network's own head does nothing to maps but average them, found out by trying."""
    maps = torch.linspace(0, 1, network.num_features * 4).view(1, -1, 2, 2)
    training = network.training
    try:
        with torch.inference_mode():
            pooled = network.eval().forward_head(maps)
    except (RuntimeError, TypeError, ValueError, AttributeError, AssertionError, IndexError):
        return False  # it wants tokens, or maps of another layout
    finally:
        network.train(training)
    mean = maps.mean((2, 3))
    return pooled.shape == mean.shape and torch.allclose(pooled, mean)


def _only_size(config: dict[str, Any], options: dict[str, Any]) -> int | None:
    """The one image size that the network takes, or None if it takes any."""
    if not config.get("fixed_input_size") or options.get("dynamic_img_size"):
        return None
    return int(options.get("img_size") or config["input_size"][-1])


def _dropper(classifier: str | tuple[str, ...]) -> Any:
    names = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    prefixes = tuple(f"{name}." for name in names)
    return lambda state: {key: value for key, value in state.items() if not key.startswith(prefixes)}
