"""timm networks on the Hugging Face hub, as ``hf-hub:OWNER/NAME`` or ``hf-hub:OWNER/NAME@REF``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from levelfield.core.errors import RunError
from levelfield.core.hubs import offline_if_unreachable
from levelfield.core.registry import RegistryEntry
from levelfield.core.sources import CodeSource, package_source
from levelfield.models import registry
from levelfield.models._trunk import Trunk, TrunkCard
from levelfield.models.timm_trunks import timm_trunk


@registry.family("hf-hub")
def resolve_hf_hub_trunk(name: str) -> RegistryEntry[TrunkCard]:
    """Return the registry entry of ``hf-hub:NAME``; ``weights: hub`` are those of its repository.

    The commit of the repository is part of the trunk's identity: if the weights change there, it is another
    trunk.
    """
    commit = _commit(name)

    def create(*, in_channels: int = 3, **options: Any) -> Trunk:
        trunk = timm_trunk(f"hf-hub:{name}", in_channels=in_channels, **options)
        trunk.name = f"hf-hub:{name}"
        return trunk

    card = TrunkCard(name=f"hf-hub:{name}", summary=f"{name} of the Hugging Face hub.", pretrained=True)
    return RegistryEntry(
        create, card, CodeSource(name, f"{package_source('timm').digest}, {name} at {commit}")
    )


def _commit(name: str) -> str:
    """Return the current commit of the repository; offline, the commit in the cache."""
    from huggingface_hub import hf_hub_download

    repository, _, revision = name.partition("@")
    try:
        with offline_if_unreachable():
            file = hf_hub_download(repository, "config.json", revision=revision or None)
    except Exception as error:  # the library raises many types of errors
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise RunError(
            f"trunk hf-hub:{name} cannot be reached ({reason}); check the name and the network; "
            "fetched files are cached"
        ) from error
    return Path(file).parent.name
