"""timm networks, as ``timm:NAME``: ViT, ConvNeXt, DINOv2, EfficientNet ..."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from levelfield.core.errors import LevelfieldError, UsageError, did_you_mean
from levelfield.core.hubs import offline_if_unreachable
from levelfield.core.registry import RegistryEntry, package_source
from levelfield.models import registry
from levelfield.models._trunk import InputRecipe, StateDict, Trunk, TrunkCard

_NOT_OPTIONS = {"checkpoint_path", "pretrained", "pretrained_cfg", "pretrained_cfg_overlay", "cache_dir"}


def _is_timm_network(name: str) -> bool:
    import timm

    return bool(timm.is_model(name))


@registry.family("timm", knows=_is_timm_network)
def resolve_timm_trunk(name: str) -> RegistryEntry[TrunkCard]:
    """Return the registry entry of ``timm:NAME``; raise UsageError if timm has no such network."""
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
    return RegistryEntry(create, card, package_source("timm"))


def timm_trunk(name: str, /, *, in_channels: int = 3, **options: Any) -> Trunk:
    """Return the trunk ``timm:name``; ``options`` are passed to ``timm.create_model`` (``img_size`` ...).

    A convolutional network whose own pooling is a plain mean returns maps, so that any pooling can follow.
    All others (class tokens, a norm after the mean, attention pooling) use their own pooling and return
    vectors.

    Example:
        >>> trunk = timm_trunk("resnet10t")
        >>> trunk.num_features, trunk.spatial
        (512, True)
    """
    import timm

    for option in _NOT_OPTIONS & options.keys():  # timm reads some of these files as pickles, which run code
        raise UsageError(f"timm:{name} does not take {option} here; name a file of weights in trunk.weights")

    def create(*, pretrained: bool) -> nn.Module:
        network: nn.Module = timm.create_model(
            name, pretrained=pretrained, num_classes=0, in_chans=in_channels, **options
        )
        return network

    def download() -> StateDict:
        with offline_if_unreachable():
            state: StateDict = create(pretrained=True).state_dict()
        return state

    try:
        network: Any = create(pretrained=False)
        config = network.pretrained_cfg
        spatial = _pools_by_plain_mean(network)
        if spatial:
            network.reset_classifier(0, "")
        num_features = network.num_features if spatial else _pooled_size(network)
    except LevelfieldError:
        raise
    except Exception as error:  # timm checks its options in many ways, or not at all
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise UsageError(
            f"timm:{name} cannot be created with {options} ({reason}); check the options"
        ) from error
    return Trunk(
        network,
        name=f"timm:{name}",
        num_features=num_features,
        spatial=spatial,
        inputs=InputRecipe(mean=config["mean"], std=config["std"]) if in_channels == 3 else InputRecipe(),
        image_size=_required_size(config, options),
        download=download if config.get("url") or config.get("hf_hub_id") else None,
        adapt=_drop_classifier(config.get("classifier") or ()),
    )


def _pooled_size(network: Any) -> int:
    """Return the feature size after the network's own pooling."""
    return int(getattr(network, "head_hidden_size", network.num_features))


def _pools_by_plain_mean(network: Any) -> bool:
    """Return whether the network's own pooling is a plain mean, by trying it on example maps."""
    maps = torch.linspace(0, 1, network.num_features * 4).view(1, -1, 2, 2)
    training = network.training
    try:
        with torch.inference_mode():
            pooled = network.eval().forward_head(maps)
    except (RuntimeError, TypeError, ValueError, AttributeError, AssertionError, IndexError):
        return False  # it needs tokens, or maps of another layout
    finally:
        network.train(training)
    mean = maps.mean((2, 3))
    return pooled.shape == mean.shape and torch.allclose(pooled, mean)


def _required_size(config: dict[str, Any], options: dict[str, Any]) -> int | None:
    """Return the required image side of the network, in pixels; None for any."""
    if not config.get("fixed_input_size") or options.get("dynamic_img_size"):
        return None
    return int(options.get("img_size") or config["input_size"][-1])


def _drop_classifier(classifier: str | tuple[str, ...]) -> Any:
    names = (classifier,) if isinstance(classifier, str) else tuple(classifier)
    prefixes = tuple(f"{name}." for name in names)
    return lambda state: {key: value for key, value in state.items() if not key.startswith(prefixes)}
