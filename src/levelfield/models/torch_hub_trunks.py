"""torch.hub networks, as ``hub:OWNER/NAME[:REF]/ENTRY`` or ``hub:FOLDER/ENTRY``.

The code of the repository is executed. Use only repositories that you trust, as with plug-ins.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from levelfield.core.errors import RunError, UsageError
from levelfield.core.registry import RegistryEntry
from levelfield.core.sources import CodeSource
from levelfield.models import registry
from levelfield.models._trunk import IMAGENET_INPUT, InputRecipe, StateDict, Trunk, TrunkCard


@registry.family("hub")
def resolve_torch_hub_trunk(name: str) -> RegistryEntry[TrunkCard]:
    """Return the registry entry of ``hub:NAME``; ``weights: hub`` are loaded by the repository's code.

    The digest of the repository's Python files is part of the trunk's identity.
    """
    repository, _, entry = name.rpartition("/")
    if not repository:
        raise UsageError(
            f"trunk hub:{name} does not name an entry; write hub:OWNER/REPOSITORY/ENTRY or hub:FOLDER/ENTRY"
        )
    folder = _repository_directory(name, repository)

    def create(
        *, in_channels: int = 3, image_size: int = 224, without: str | None = None, **options: Any
    ) -> Trunk:
        def make(*, pretrained: bool) -> nn.Module:
            return _create_network(
                folder, entry, name=name, pretrained=pretrained, without=without, options=options
            )

        return _as_trunk(name, make, in_channels=in_channels, image_size=image_size)

    card = TrunkCard(name=f"hub:{name}", summary=f"{entry} of {repository}.", image_size=0, pretrained=True)
    return RegistryEntry(create, card, CodeSource(name, _digest(folder)))


def _as_trunk(name: str, make: Callable[..., nn.Module], *, in_channels: int, image_size: int) -> Trunk:
    """Return the network as a trunk; its output shape is found with a black image of ``image_size``."""
    network = make(pretrained=False)
    training = network.training
    try:
        with torch.inference_mode():
            found = network.eval()(torch.zeros(2, in_channels, image_size, image_size))
    except Exception as error:  # foreign code can raise anything
        raise UsageError(
            f"trunk hub:{name} rejects images of {in_channels} x {image_size} x {image_size} ({error}); "
            "set image_size to a side that it accepts"
        ) from error
    finally:
        network.train(training)
    if not isinstance(found, Tensor) or found.ndim not in (2, 4):
        raise UsageError(
            f"trunk hub:{name} does not return vectors (B x F) or maps (B x F x h x w); name another entry"
        )
    return Trunk(
        network,
        name=f"hub:{name}",
        num_features=found.shape[1],
        spatial=found.ndim == 4,
        inputs=IMAGENET_INPUT if in_channels == 3 else InputRecipe(),
        download=lambda: _state(make),
    )


def _state(make: Callable[..., nn.Module]) -> StateDict:
    return make(pretrained=True).state_dict()


def _create_network(
    folder: Path, entry: str, *, name: str, pretrained: bool, without: str | None, options: dict[str, Any]
) -> nn.Module:
    """Create the network with the repository's code; ``without`` names a layer to remove."""
    try:
        network = torch.hub.load(  # type: ignore[no-untyped-call]  # torch.hub has no types
            str(folder), entry, source="local", pretrained=pretrained, **options
        )
    except OSError:
        raise  # a failed download of weights; the caller reports it
    except Exception as error:  # foreign code can raise anything
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise UsageError(
            f"trunk hub:{name} cannot be created with pretrained={pretrained} and {options} ({reason}); "
            "check the entry and its options in the repository's hubconf.py"
        ) from error
    if not isinstance(network, nn.Module):
        raise UsageError(f"trunk hub:{name} is a {type(network).__name__}, not a network; name another entry")
    if without is not None:
        if without not in dict(network.named_modules()):
            raise UsageError(f'trunk hub:{name} has no layer "{without}" to remove; see print(network)')
        network.set_submodule(without, nn.Identity())
    return network


def _repository_directory(name: str, repository: str) -> Path:
    """Return the local directory of the repository: the given folder, or torch.hub's copy."""
    local = Path(repository).expanduser()
    if (local / "hubconf.py").is_file():
        return local.resolve()
    if local.is_absolute() or repository.count("/") != 1:
        raise UsageError(f"trunk hub:{name}: {local / 'hubconf.py'} does not exist; check the folder")
    plain, _, ref = repository.partition(":")
    kept = f"{plain.replace('/', '_')}_{ref.replace('/', '_') or '*'}"
    try:
        if not any(Path(torch.hub.get_dir()).glob(kept)):
            with contextlib.redirect_stdout(io.StringIO()):
                # torch.hub has no types
                torch.hub.list(repository, trust_repo=True, verbose=False)  # type: ignore[no-untyped-call]
        folders = [found for found in Path(torch.hub.get_dir()).glob(kept) if found.is_dir()]
        return max(folders, key=lambda found: found.stat().st_mtime)
    except Exception as error:  # network failures raise many types of errors
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise RunError(
            f"trunk hub:{name}: github.com/{plain} cannot be reached ({reason}); check the network, "
            "or give a local folder with the repository"
        ) from error


def _digest(folder: Path) -> str:
    """Return the digest of the repository's Python files."""
    found = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        found.update(f"{file.relative_to(folder).as_posix()}\n".encode() + file.read_bytes())
    return f"hub {found.hexdigest()[:16]}"
