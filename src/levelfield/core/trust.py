"""Decision whether a file from elsewhere may choose code that runs here.

Model cards, indexes and records are data, and may come from strangers. They may name parts of this package,
and networks of timm by name. Whatever else they name runs code that they chose, and needs the user's consent.
"""

from __future__ import annotations

from typing import Any

from levelfield.core.errors import UsageError
from levelfield.core.registry import Registry

# Families whose code is an installed package, with names that choose a class in it.
SAFE_FAMILIES = frozenset(("timm", "pml", "torchvision", "hf"))
_RUNS = {
    "hub": "the file hubconf.py of {rest}, with everything that it imports",
    "hf-hub": "a network that the repository {rest} of the Hugging Face hub configures, with its weights",
}


def check_trusted(registry: Registry[Any, ...], name: str, *, origin: str, trust: bool) -> None:
    """Raise UsageError if ``name``, found in a file, would run foreign code without consent.

    The name is only read: nothing is imported, fetched or executed before the decision. The place of the file
    does not matter, since files move; a file that you wrote yourself is treated like any other.

    Args:
        registry: Registry that the name is looked up in.
        name: Name of a plug-in, such as ``timm:vit_small_patch16_224`` or ``hub:OWNER/REPOSITORY/ENTRY``.
        origin: File that contains the name, for the message.
        trust: Consent of the user: ``--trust``, or ``trust=True``.

    Example:
        >>> shapes = Registry("shape", lambda **_: None)
        >>> check_trusted(shapes, "timm:resnet18", origin="model.json", trust=False)
        >>> check_trusted(shapes, "hub:stranger/net/small", origin="model.json", trust=False)
        Traceback (most recent call last):
        ...
        levelfield.core.errors.UsageError: model.json names the shape hub:stranger/net/small: loading ...
    """
    if trust or not (what := _foreign_code(registry, name)):
        return
    raise UsageError(
        f"{origin} names the {registry.kind} {name}: loading it would run {what}; if you trust whoever made "
        "the file and that code, give --trust (in Python: trust=True)"
    )


def _foreign_code(registry: Registry[Any, ...], name: str) -> str:
    """Return the code that ``name`` would run, in words; empty if it is in this package or in a library."""
    prefix, colon, rest = name.partition(":")
    if colon:
        if prefix in SAFE_FAMILIES and ":" not in rest:
            return ""
        described = _RUNS.get(prefix, "the plug-in family {prefix}")
        return described.format(rest=rest.rpartition("/")[0] if prefix == "hub" else rest, prefix=prefix)
    return "" if registry.is_built_in(name) else f"the plug-in {name}, which is not part of levelfield"
