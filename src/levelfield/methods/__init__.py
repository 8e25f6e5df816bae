"""Methods to compare: every loss is one; ``built_in.py`` adds combinations with a miner or fixed options."""

from __future__ import annotations

from levelfield import losses
from levelfield.config import MethodSpec
from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.registry import Card, Registry
from levelfield.methods._combinations import check_combination
from levelfield.methods._method import (
    LOSS_LR,
    Method,
    RegularizerSetting,
    apply_spec,
    part_options,
    selected_regularizers,
    selected_synthesis,
)

__all__ = [
    "LOSS_LR",
    "Method",
    "RegularizerSetting",
    "check_combination",
    "method_names",
    "part_options",
    "register",
    "registry",
    "resolve_method",
    "selected_regularizers",
    "selected_synthesis",
]

registry = Registry("method", Card, package=__name__)
register = registry.register


def method_names() -> list[str]:
    """Return the names of all methods: registered methods and losses, sorted."""
    return sorted({*registry.names(), *losses.registry.names()})


def resolve_method(spec: MethodSpec) -> Method:
    """Return the method of an experiment file's entry.

    Example:
        >>> resolve_method(MethodSpec(name="triplet", set={"margin": 0.1})).space
        {}
    """
    if spec.name in registry:
        method: Method = registry.create(spec.name)
    elif spec.loss is not None:
        method = Method(name=spec.name, loss=spec.loss)
    elif spec.name in losses.registry:
        method = Method(name=spec.name, loss=spec.name)
    else:
        hint = did_you_mean(spec.name, method_names())
        raise UsageError(f'unknown method "{spec.name}"{hint}, or give its parts with `loss:`')
    return apply_spec(method, spec)
