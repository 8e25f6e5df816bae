"""Records of schema 1 (2026-11-15) as schema 2 has them, so that old folders can be read.

They are read, never written: an experiment goes on only in a folder of its own version, because the names of
its runs and searches have changed.
"""

from __future__ import annotations

from typing import Any

_NOT_A_SCORE = ("epoch", "loss", "scores")


def upgrade_epoch(line: dict[str, Any]) -> dict[str, Any]:
    """A line of ``epochs.jsonl``: scores stood beside epoch and loss.

    Example:
        >>> upgrade_epoch({"epoch": 2, "loss": 0.5, "map_at_r": 0.1})
        {'epoch': 2, 'loss': 0.5, 'scores': {'map_at_r': 0.1}}
    """
    if "scores" in line:
        return line
    scores = {name: value for name, value in line.items() if name not in _NOT_A_SCORE}
    return {"epoch": line["epoch"], "loss": line["loss"], "scores": scores}


def upgrade_selection(selection: dict[str, Any]) -> dict[str, Any]:
    """A selection; only that of the baseline was different."""
    network = selection.get("network")
    return selection if network is None else selection | {"network": _upgrade_network(network)}


def upgrade_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """A run's spec: plug-ins had their options beside their name, and only a method's parts had hashes."""
    if spec.get("schema_version") != 1:
        return spec
    recipe = dict(spec["recipe"])
    recipe["sources"] = recipe.pop("plugins", {})
    return spec | _upgrade_network(spec) | {"recipe": recipe, "metric": {"name": spec["training"]["metric"]}}


def _upgrade_network(network: dict[str, Any]) -> dict[str, Any]:
    data = network["data"] | {"split": _upgrade_plugin(network["data"]["split"])}
    return network | {"data": data, "transform": _upgrade_plugin(network["transform"])}


def _upgrade_plugin(plugin: dict[str, Any]) -> dict[str, Any]:
    """A plug-in.

    Example:
        >>> _upgrade_plugin({"name": "class_disjoint", "folds": 4})
        {'name': 'class_disjoint', 'options': {'folds': 4}}
    """
    if "options" in plugin:
        return plugin
    options = {name: value for name, value in plugin.items() if name != "name"}
    return {"name": plugin["name"], "options": options}
