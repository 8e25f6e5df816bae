"""Plug-ins that a test registers are gone after it: other tests walk over all registered ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from levelfield import data, losses, metrics, miners, models, samplers


@pytest.fixture(autouse=True)
def registries_stay_as_they_were() -> Iterator[None]:
    registries = [part.registry for part in (data, losses, metrics, miners, models, samplers)]
    before = [set(registry.names()) for registry in registries]
    yield
    for registry, names in zip(registries, before, strict=True):
        for name in set(registry.names()) - names:
            del registry._entries[name]
