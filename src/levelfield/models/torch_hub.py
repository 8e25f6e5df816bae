"""Networks that repositories offer to ``torch.hub``: ``hub:OWNER/NAME[:REF]/ENTRY`` or ``hub:FOLDER/ENTRY``.

The repository's own code makes the network: to name one is to trust it, as with a plug-in.
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

from levelfield.errors import RunError, UsageError
from levelfield.models import registry
from levelfield.models._trunk import IMAGENET_INPUT, InputRecipe, StateDict, Trunk, TrunkCard
from levelfield.registry import Entry
from levelfield.sources import Source


@registry.family("hub")
def resolve(name: str) -> Entry[TrunkCard]:
    """The entry of ``hub:NAME``; ``weights: hub`` are those that the repository loads itself.

    The hash of the repository's Python files is part of the trunk's identity.
    """
    repository, _, entry = name.rpartition("/")
    if not repository:
        raise UsageError(
            f"trunk hub:{name} names no entry; write hub:OWNER/REPOSITORY/ENTRY or hub:FOLDER/ENTRY"
        )
    folder = _folder(name, repository)

    def create(
        *, in_channels: int = 3, image_size: int = 224, without: str | None = None, **options: Any
    ) -> Trunk:
        def make(*, pretrained: bool) -> nn.Module:
            return _make(folder, entry, name=name, pretrained=pretrained, without=without, options=options)

        return _trunk(name, make, in_channels=in_channels, image_size=image_size)

    card = TrunkCard(name=f"hub:{name}", summary=f"{entry} of {repository}.", image_size=0, pretrained=True)
    return Entry(create, card, Source(name, _digest(folder)))


def _trunk(name: str, make: Callable[..., nn.Module], *, in_channels: int, image_size: int) -> Trunk:
    """The network as a trunk; what it returns is found out by a black picture of ``image_size``."""
    network = make(pretrained=False)
    training = network.training
    try:
        with torch.inference_mode():
            found = network.eval()(torch.zeros(2, in_channels, image_size, image_size))
    except Exception as error:  # whatever the code of others raises
        raise UsageError(
            f"trunk hub:{name} takes no images of {in_channels} x {image_size} x {image_size} ({error}); "
            "set image_size to a side that it takes"
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


def _make(
    folder: Path, entry: str, *, name: str, pretrained: bool, without: str | None, options: dict[str, Any]
) -> nn.Module:
    """Let the repository make its network; ``without`` names a last layer, a classifier, to leave out."""
    try:
        network = torch.hub.load(  # type: ignore[no-untyped-call]
            str(folder), entry, source="local", pretrained=pretrained, **options
        )
    except OSError:
        raise  # its weights could not be fetched: the caller says so
    except Exception as error:  # whatever the code of others raises
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise UsageError(
            f"trunk hub:{name} cannot be made with pretrained={pretrained} and {options} ({reason}); "
            "check the entry and its options in the repository's hubconf.py"
        ) from error
    if not isinstance(network, nn.Module):
        raise UsageError(f"trunk hub:{name} is a {type(network).__name__}, not a network; name another entry")
    if without is not None:
        if without not in dict(network.named_modules()):
            raise UsageError(f'trunk hub:{name} has no layer "{without}" to leave out; see print(network)')
        network.set_submodule(without, nn.Identity())
    return network


def _folder(name: str, repository: str) -> Path:
    """Where the repository's code lies: the folder itself, or torch.hub's copy of it."""
    local = Path(repository).expanduser()
    if (local / "hubconf.py").is_file():
        return local.resolve()
    if local.is_absolute() or repository.count("/") != 1:
        raise UsageError(f"trunk hub:{name}: there is no {local / 'hubconf.py'}; check the folder")
    plain, _, ref = repository.partition(":")
    kept = f"{plain.replace('/', '_')}_{ref.replace('/', '_') or '*'}"
    try:
        if not any(Path(torch.hub.get_dir()).glob(kept)):
            with contextlib.redirect_stdout(io.StringIO()):
                torch.hub.list(repository, trust_repo=True, verbose=False)  # type: ignore[no-untyped-call]
        folders = [found for found in Path(torch.hub.get_dir()).glob(kept) if found.is_dir()]
        return max(folders, key=lambda found: found.stat().st_mtime)
    except Exception as error:  # each kind of missing network has an error of its own
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise RunError(
            f"trunk hub:{name}: github.com/{plain} cannot be reached ({reason}); go online once, "
            "or name a folder that holds the repository"
        ) from error


def _digest(folder: Path) -> str:
    """The hash of the repository's code, wherever it lies."""
    found = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        found.update(f"{file.relative_to(folder).as_posix()}\n".encode() + file.read_bytes())
    return f"hub {found.hexdigest()[:16]}"
