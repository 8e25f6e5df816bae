"""YAML of experiment files: safe, strict about keys, with limits, and with errors that name the line."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import yaml

from levelfield.core.errors import UsageError

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 50  # of lists and mappings in each other; experiment files need 5
MAX_NODES = 200_000  # keys and values, with aliases written out
MAX_DIGITS = 400  # of a whole number, as many as those of the largest float


def parse_yaml(text: str, *, origin: str) -> Any:
    """Return the YAML document ``text``.

    Example:
        >>> parse_yaml("lr: 1e-6", origin="example")
        {'lr': 1e-06}
        >>> parse_yaml("lr: 1\\nlr: 2", origin="example")
        Traceback (most recent call last):
        ...
        levelfield.core.errors.UsageError: example, line 2: the key "lr" is given twice ...; keep one of them
    """
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"{origin} has more than {MAX_CHARACTERS:,} characters; it is no experiment file")
    try:
        return yaml.load(text, Loader=_Loader)
    except _ContentError as error:
        raise UsageError(f"{origin}, line {error.line}: {error}") from error
    except yaml.YAMLError as error:
        message = " ".join(str(error).split())
        raise UsageError(f"{origin} is not valid YAML: {message}") from error


class _ContentError(yaml.YAMLError):
    """Problem of one node, which is valid YAML otherwise."""

    def __init__(self, node: yaml.Node | yaml.Event, message: str) -> None:
        super().__init__(message)
        mark = node.start_mark
        self.line = mark.line + 1 if mark else 0


class _Loader(yaml.SafeLoader):
    """Safe YAML whose ``1e-6`` is a number (YAML 1.1 reads it as text) and whose keys are unique."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._open: list[int] = [0]  # nodes so far, of each node that is being composed
        self._sizes: dict[int, int] = {}  # of finished nodes, with their aliases written out

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node within the limits, so that neither Python's stack nor the memory ends first."""
        event = self.peek_event()  # type: ignore[no-untyped-call]  # yaml has no types
        if len(self._open) > MAX_DEPTH:
            raise _ContentError(event, f"more than {MAX_DEPTH} levels of lists and mappings")
        self._open.append(1)
        node = super().compose_node(parent, index)
        size = self._open.pop()
        if isinstance(event, yaml.AliasEvent):
            if id(node) not in self._sizes:
                raise _ContentError(event, f"the alias *{event.anchor} is a part of itself")
            size = self._sizes[id(node)]
        self._sizes[id(node)] = size
        self._open[-1] += size
        if self._open[-1] > MAX_NODES:
            raise _ContentError(event, f"more than {MAX_NODES:,} values, with aliases written out")
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Construct a mapping; two equal keys would silently become one."""
        lines: dict[Hashable, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # what it brings may be overridden
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # an error below
            if key in lines:
                raise _ContentError(
                    key_node, f'the key "{key}" is given twice (first in line {lines[key]}); keep one of them'
                )
            lines[key] = key_node.start_mark.line + 1
        return super().construct_mapping(node, deep=deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct an object; a text that does not fit its type is named with its line."""
        try:
            value = super().construct_object(node, deep=deep)
        except (ValueError, KeyError, AttributeError, TypeError, OverflowError) as error:
            kind = node.tag.rpartition(":")[2]
            shown = str(node.value)[:40]
            raise _ContentError(node, f'"{shown}" is not a valid {kind}; correct it or quote it') from error
        if isinstance(value, int) and abs(value) >= 10**MAX_DIGITS:
            raise _ContentError(node, f"the number has more than {MAX_DIGITS} digits")
        return value


_Loader.yaml_implicit_resolvers = {
    key: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:float"]
    for key, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(\d+\.\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|\d+[eE][-+]?\d+|\.(inf|Inf)|\.(nan|NaN))$"
    ),
    list("-+0123456789."),
)
