"""Keys that were renamed: the old ones stay accepted, and digests keep using them.

A run is named by the digest of its spec. Renaming a key must not change that name, so digests are taken with
the old keys (:func:`with_recorded_keys`), and old records are read with the new ones
(:func:`with_current_keys`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from levelfield.core.deprecation import renamed_option

# Old key to new key; a key that ends in a period stands for all keys that start with it.
HYPERPARAMETERS: Mapping[str, str] = {"regulariser.": "regularizer."}  # old spelling
# Only with the built-in sampler htl: a plug-in may have an option of either name.
HTL: Mapping[str, str] = {"sampler.neighbourhood": "sampler.neighborhood"}  # old spelling
TRANSFORM_OPTIONS: Mapping[str, str] = {"grey": "gray"}  # old spelling


def current_key(key: str, *, sampler: str | None = None) -> str:
    """Return the current name of a hyperparameter of a method with this batch sampler.

    Example:
        >>> current_key("regulariser.koleo"), current_key("margin")  # old spelling
        ('regularizer.koleo', 'margin')
    """
    return _renamed(key, _names(sampler))


def with_current_keys(hyperparameters: Any, *, sampler: str | None = None) -> Any:
    """Return a mapping of hyperparameters with current names; raise ValueError if old and new are given."""
    if not isinstance(hyperparameters, Mapping):
        return hyperparameters
    current: dict[Any, Any] = {}
    for key, value in hyperparameters.items():
        name = current_key(key, sampler=sampler) if isinstance(key, str) else key
        if name in current:
            raise ValueError(f"{name} is given twice, once by its old name; leave one out")
        current[name] = value
    return current


def with_recorded_keys(identity: Any) -> Any:
    """Return JSON values of an identity with the keys that digests use.

    Example:
        >>> recorded = with_recorded_keys({"hyperparameters": {"regularizer.koleo": 0.1}})
        >>> recorded == {"hyperparameters": {"regulariser.koleo": 0.1}}  # old spelling
        True
    """
    recipe = identity.get("recipe") or identity.get("run", {}).get("recipe") or {}
    built_in = "sampler" not in recipe.get("sources", {})
    names = _names(recipe.get("sampler") if built_in else None)
    return _with_old_keys(identity, {new: old for old, new in names.items()})


def _with_old_keys(value: Any, old_keys: Mapping[str, str]) -> Any:
    if isinstance(value, list | tuple):
        return [_with_old_keys(item, old_keys) for item in value]
    if not isinstance(value, Mapping):
        return value
    found = {_renamed(key, old_keys): _with_old_keys(item, old_keys) for key, item in value.items()}
    transform = found.get("transform")
    if isinstance(transform, dict) and transform.get("source") is None and "options" in transform:
        old_options = {new: old for old, new in TRANSFORM_OPTIONS.items()}
        options = {old_options.get(key, key): item for key, item in transform["options"].items()}
        found["transform"] = {**transform, "options": options}
    return found


def _names(sampler: str | None) -> Mapping[str, str]:
    return HYPERPARAMETERS if sampler != "htl" else {**HYPERPARAMETERS, **HTL}


def warn_about_old_keys(values: Mapping[str, Any]) -> None:
    """Warn about each old key in the methods of an experiment file."""
    methods = values.get("methods")
    for method in methods if isinstance(methods, list | tuple) else ():
        for section in ("set", "space"):
            given = method.get(section) if isinstance(method, Mapping) else None
            for key in given if isinstance(given, Mapping) else ():
                new = current_key(key, sampler=method.get("sampler")) if isinstance(key, str) else key
                if new != key:
                    renamed_option(key, new, of=f"method {method.get('name')}")


def _renamed(key: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        if key == old or (old.endswith(".") and key.startswith(old)):
            return new + key[len(old) :]
    return key
