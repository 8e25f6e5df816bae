"""Methods: every loss is one by itself; recipes with a miner or a sampler of their own have a file each."""

from __future__ import annotations

from levelfield import losses
from levelfield.config import MethodSpec
from levelfield.errors import UsageError, did_you_mean
from levelfield.methods._method import (
    LOSS_LR,
    Method,
    RegulariserChoice,
    apply_spec,
    chosen_regularisers,
    chosen_synthesis,
    part_options,
)
from levelfield.methods._sense import check_sense
from levelfield.registry import Card, Registry

__all__ = [
    "LOSS_LR",
    "Method",
    "RegulariserChoice",
    "check_sense",
    "chosen_regularisers",
    "chosen_synthesis",
    "names",
    "part_options",
    "register",
    "registry",
    "resolve",
]

registry: Registry[Card] = Registry("method", Card, package=__name__)
register = registry.register


def names() -> list[str]:
    """Every method that can be named in an experiment: the recipes, and each loss by itself."""
    return sorted({*registry.names(), *losses.registry.names()})


def resolve(spec: MethodSpec) -> Method:
    """The method that an experiment file asks for.

    Example:
        >>> resolve(MethodSpec(name="triplet", set={"margin": 0.1})).space
        {}
    """
    if spec.name in registry:
        method: Method = registry.create(spec.name)
    elif spec.loss is not None:
        method = Method(name=spec.name, loss=spec.loss)
    elif spec.name in losses.registry:
        method = Method(name=spec.name, loss=spec.name)
    else:
        hint = did_you_mean(spec.name, names())
        raise UsageError(f'unknown method "{spec.name}"{hint}, or give its parts with `loss:`')
    return apply_spec(method, spec)
