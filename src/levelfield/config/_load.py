"""Reading experiment files: presets, merging, dotted overrides, and errors that name the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from levelfield.config._renamed import warn_about_old_keys
from levelfield.config._schema import Experiment
from levelfield.config._yaml import MAX_CHARACTERS, parse_yaml
from levelfield.core.errors import UsageError, did_you_mean


def load(path: Path, overrides: tuple[str, ...] = ()) -> Experiment:
    """See :meth:`Experiment.load`."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_CHARACTERS + 1)  # not more: it may be any file
    except FileNotFoundError as error:
        raise UsageError(f"experiment file {path} does not exist; check the path") from error
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the path
        raise UsageError(f"experiment file {path} cannot be read: {error}") from error
    values = parse_yaml(text, origin=str(path))
    if not isinstance(values, dict):
        raise UsageError(f"experiment file {path} must hold `key: value` lines, e.g. `name: my-experiment`")
    values.setdefault("name", path.stem)
    plugins = values.get("plugins") or []
    if not isinstance(plugins, list) or not all(isinstance(plugin, str) for plugin in plugins):
        raise UsageError(f"{path}: plugins must be a list of Python files, e.g. `plugins: [my_loss.py]`")
    values["plugins"] = [str(path.parent / plugin) for plugin in plugins]  # an absolute path stays as it is
    return build(values, overrides, origin=str(path))


def build(values: Mapping[str, Any], overrides: tuple[str, ...] = (), *, origin: str) -> Experiment:
    """Merge ``values`` into their preset, apply ``overrides``, and validate."""
    merged = dict(values)
    for override in overrides:
        merged = merge(merged, parse_override(override))
    merged |= {
        key: {"name": merged[key]} for key in _PLUGIN_SECTIONS if isinstance(merged.get(key), str)
    }  # `trunk: conv4` is short for `trunk: {name: conv4}`
    if merged.get("preset") is not None:
        merged = _over_preset(str(merged["preset"]), merged)
    warn_about_old_keys(merged)
    try:
        return Experiment.model_validate(merged)
    except ValidationError as error:
        raise UsageError(f"{origin}: {_explain(error, merged)}") from error


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with the values of ``over``: mappings merge at every depth, other values are replaced.

    A section that names another plug-in replaces the section: the old one's options are not the new one's.

    Example:
        >>> merge({"search": {"trials": 50, "sampler": "gp"}}, {"search": {"trials": 3}})
        {'search': {'trials': 3, 'sampler': 'gp'}}
        >>> merge({"dataset": {"name": "cub200", "root": "data"}}, {"dataset": {"name": "glyphs"}})
        {'dataset': {'name': 'glyphs'}}
    """
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        if not (isinstance(value, Mapping) and isinstance(old, Mapping)):
            result[key] = value
        elif "name" in value and "name" in old and value["name"] != old["name"] and key in _PLUGIN_SECTIONS:
            result[key] = dict(value)
        else:
            result[key] = merge(old, value)
    return result


_PLUGIN_SECTIONS = ("dataset", "split", "trunk", "transform", "engine")


def parse_override(text: str) -> dict[str, Any]:
    """``a.b=value`` as nested mappings; the value is YAML.

    Example:
        >>> parse_override("search.trials=10")
        {'search': {'trials': 10}}
    """
    path, equals, value = text.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise UsageError(f'override "{text}" must look like section.key=value, e.g. search.trials=10')
    nested: Any = parse_yaml(value, origin=f'override "{text}"')
    for key in reversed(keys):
        nested = {key: nested}
    return dict(nested)


def preset_names() -> list[str]:
    """Return the presets that come with the package."""
    folder = resources.files("levelfield.config") / "presets"
    return sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml"))


def preset_text(name: str) -> str:
    """Return the YAML of a preset, with its comments (they say where each value comes from)."""
    if name not in preset_names():
        raise UsageError(f'unknown preset "{name}"{did_you_mean(name, preset_names())}')
    return (resources.files("levelfield.config") / "presets" / f"{name}.yaml").read_text(encoding="utf-8")


def read_preset(name: str) -> dict[str, Any]:
    """Return a preset's values; a preset may itself build on another one."""
    values: dict[str, Any] = parse_yaml(preset_text(name), origin=f"preset {name}")
    base = values.pop("preset", None)
    return merge(read_preset(base), values) if base else values


def _over_preset(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a preset, changed by its ``when`` rules that match and then by ``values``.

    A rule ``{if: {dataset: sop, trunk: resnet50}, set: {...}}`` fits if the experiment names these plug-ins;
    later rules override earlier ones, and the user's own values override all rules.
    """
    preset = read_preset(name)
    rules = preset.pop("when", [])
    whole = merge(preset, values)
    for rule in rules:
        if not {"if", "set"} == rule.keys():
            raise UsageError(
                f"preset {name}: a rule under `when` has the keys if and set, got {sorted(rule)}"
            )
        if all(_named(whole.get(section)) == wanted for section, wanted in rule["if"].items()):
            preset = merge(preset, rule["set"])
    return merge(preset, values)


def _named(section: Any) -> str | None:
    return section.get("name") if isinstance(section, Mapping) else None


def _explain(error: ValidationError, values: Mapping[str, Any]) -> str:
    """Return the first key with a problem as one line; the other keys are counted."""
    problems: dict[str, list[Any]] = {}
    for problem in error.errors(include_url=False):
        problems.setdefault(_key_of(problem, values), []).append(problem)
    path, found = next(iter(problems.items()))
    first = found[0]
    if first["type"] == "extra_forbidden":
        fields = _fields_at(first["loc"][:-1])
        line = f'unknown key "{path}"{did_you_mean(str(first["loc"][-1]), fields)}'
    elif first["type"] == "missing":
        line = f'"{path}" is missing; add it, or name a preset that sets it'
    else:
        messages = [problem["msg"].removeprefix("Value error, ") for problem in found]
        told = ", or ".join(f"{message[0].lower()}{message[1:]}" for message in messages)
        line = f'"{path}" = {first["input"]!r}: {told}'
    return line if len(problems) == 1 else f"{line} (and {len(problems) - 1} more)"


def _key_of(problem: Any, values: Any) -> str:
    """Return the key as the user wrote it; what pydantic appends names an alternative of its type."""
    path = []
    for part in problem["loc"]:
        if isinstance(values, Mapping) and (part in values or problem["type"] == "missing"):
            values = values.get(part)
        elif isinstance(values, list | tuple) and isinstance(part, int):
            values = values[part]
        else:
            break
        path.append(str(part))
    return ".".join(path)


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    """Return the keys that the schema knows at ``location``."""
    model: type[BaseModel] = Experiment
    for part in location:
        if isinstance(part, int):
            continue
        annotation = model.model_fields[str(part)].annotation
        candidates = [annotation, *get_args(annotation)]
        nested = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not nested:
            return []
        model = nested[0]
    return [field.alias or name for name, field in model.model_fields.items()]
