"""Networks of timm on the Hugging Face hub, as ``hf-hub:OWNER/NAME`` or ``hf-hub:OWNER/NAME@REF``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from levelfield.errors import RunError
from levelfield.hubs import no_vain_retries
from levelfield.models import registry
from levelfield.models._trunk import Trunk, TrunkCard
from levelfield.models.timm_family import timm_trunk
from levelfield.registry import Entry
from levelfield.sources import Source, package_source


@registry.family("hf-hub")
def resolve(name: str) -> Entry[TrunkCard]:
    """The entry of a network on the hub; ``weights: hub`` are those that lie beside its configuration.

    The commit of the hub's repository is part of the trunk's identity: weights that were replaced there are
    another trunk.
    """
    commit = _commit(name)

    def create(*, in_channels: int = 3, **options: Any) -> Trunk:
        trunk = timm_trunk(f"hf-hub:{name}", in_channels=in_channels, **options)
        trunk.name = f"hf-hub:{name}"
        return trunk

    card = TrunkCard(name=f"hf-hub:{name}", summary=f"{name} of the Hugging Face hub.", pretrained=True)
    return Entry(create, card, Source(name, f"{package_source('timm').digest}, {name} at {commit}"))


def _commit(name: str) -> str:
    """The commit that the name stands for now; offline, the one in the cache."""
    from huggingface_hub import hf_hub_download

    repository, _, revision = name.partition("@")
    try:
        with no_vain_retries():
            file = hf_hub_download(repository, "config.json", revision=revision or None)
    except Exception as error:  # the library raises a dozen kinds, of its own and of the network's
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise RunError(
            f"trunk hf-hub:{name} cannot be reached ({reason}); check the name, or go online once: "
            "what was fetched is kept"
        ) from error
    return Path(file).parent.name
