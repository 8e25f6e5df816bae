"""Hostile variants of a JSON file: one or several values replaced, removed or added, or the text damaged."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

DEEP = 5000
POISON: tuple[Any, ...] = (
    10**12,
    10**6,
    -1,
    0,
    2**63,
    10**400,
    1e9,
    1e-300,
    1e308,
    float("nan"),
    float("inf"),
    None,
    True,
    "",
    "A" * 100_000,
    "../../../etc/passwd",
    "/dev/zero",
    "a\0b",
    "\ud800",
    "<script>alert(1)</script>",
    [],
    {},
    [1.0] * 20_000,
    [[]],
    {"a": {"b": 1}},
    "timm:hf-hub:stranger/net",
    "hf-hub:stranger/net",
    "no such name",
)


def variants(value: Any, count: int, *, seed: int, poison: tuple[Any, ...] = ()) -> Iterator[bytes]:
    """Yield ``count`` hostile texts made from a JSON value; ``poison`` adds values to the built-in ones."""
    random_stream = random.Random(seed)
    values = POISON + poison
    for _ in range(count):
        kind = random_stream.random()
        if kind < 0.85:
            changed = json.loads(json.dumps(value))
            for _ in range(random_stream.choice((1, 1, 1, 2, 3))):
                _mutate(changed, random_stream, values)
            yield json.dumps(changed, ensure_ascii=True).encode()
        else:
            yield _damage(json.dumps(value).encode(), random_stream)


def _mutate(value: Any, random_stream: random.Random, poison: tuple[Any, ...]) -> None:
    holder, key = random_stream.choice(list(_places(value)) or [(value, None)])
    action = random_stream.random()
    if action < 0.1 and isinstance(holder, dict):
        holder["unknown"] = copy.deepcopy(random_stream.choice(poison))
    elif action < 0.2 and key is not None:
        del holder[key]
    elif key is not None:
        holder[key] = copy.deepcopy(random_stream.choice(poison))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield value, key
        yield from _places(item)


def _damage(text: bytes, random_stream: random.Random) -> bytes:
    kind = random_stream.randrange(5)
    place = random_stream.randrange(len(text))
    if kind == 0:
        return text[:place]
    if kind == 1:
        return text[:place] + bytes([random_stream.randrange(256)]) + text[place + 1 :]
    if kind == 2:
        return b"[" * DEEP + text + b"]" * DEEP
    if kind == 3:
        return text[:-1] + b', "deep": ' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}"
    return text[:place] + b"9" * 5000 + text[place:]
