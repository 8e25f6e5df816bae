"""Options of built-in and external plug-ins are checked by type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import Field
from tests.helpers.built_in import built_in_names

from levelfield import losses, miners, models, samplers
from levelfield.core.errors import UsageError
from levelfield.core.options import Size, call_plugin, validate_options
from levelfield.core.registry import Card, Registry
from levelfield.data import registry as datasets
from levelfield.data import splits, transforms
from levelfield.losses import regularizers

if TYPE_CHECKING:
    from fractions import Fraction


class Color(Enum):
    RED = "red"
    BLUE = "blue"


def plugin(
    labels: Sequence[int],
    *,
    count: int = 4,
    ratio: float = 0.5,
    mode: Literal["hard", "easy"] = "hard",
    maybe: int | None = None,
    scale: tuple[float, float] = (0.0, 1.0),
    steps: list[int] | None = None,
    file: Path | None = None,
    color: Color = Color.RED,
    flag: bool = False,
    width: Size = 32,
    share: Annotated[float, Field(gt=0, le=1)] = 0.5,
    unseen: Fraction | None = None,
    anything=None,  # options without an annotation are not checked
) -> None:
    """Plug-in with every kind of option; its annotations are strings (PEP 563)."""


@dataclass(kw_only=True)
class PluginFields:
    """Options as dataclass fields."""

    count: Size = 4


class PluginClass:
    def __init__(self, count: int = 4) -> None:
        self.count = count


def check(options: dict[str, Any], target: Callable[..., Any] = plugin) -> dict[str, Any]:
    return validate_options(target, options, plugin='toy "plugin"', supplied=("labels",))


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ({"count": 3}, 3),
        ({"ratio": 1}, 1.0),
        ({"mode": "easy"}, "easy"),
        ({"maybe": None}, None),
        ({"maybe": 3}, 3),
        ({"scale": [0, 1]}, (0.0, 1.0)),
        ({"scale": (0.5, 1.0)}, (0.5, 1.0)),
        ({"steps": (1, 2)}, [1, 2]),
        ({"file": "a/b"}, Path("a/b")),
        ({"file": Path("a")}, Path("a")),
        ({"color": "blue"}, Color.BLUE),
        ({"color": Color.BLUE}, Color.BLUE),
        ({"flag": True}, True),
        ({"width": 65_536}, 65_536),
        ({"anything": {"x": [1]}}, {"x": [1]}),
        ({"unseen": "1/2"}, "1/2"),
    ],
)
def test_valid_values_are_converted(given, used) -> None:
    (value,) = check(given).values()
    assert value == used
    assert type(value) is type(used)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"count": "x"}, "a whole number; write e.g. count: 4"),
        ({"count": "1e-3"}, "a whole number"),
        ({"count": math.nan}, "a whole number"),
        ({"count": 1.5}, "a whole number"),
        ({"count": True}, "a whole number"),
        ({"count": None}, "a whole number"),
        ({"count": 10**30}, "is too large"),
        ({"ratio": True}, "a finite number; write e.g. ratio: 0.5"),
        ({"ratio": "0.5"}, "a finite number"),
        ({"ratio": math.inf}, "a finite number"),
        ({"ratio": math.nan}, "a finite number"),
        ({"mode": "soft"}, "one of hard, easy; write e.g. mode: hard"),
        ({"maybe": "x"}, "a whole number or null"),
        ({"scale": [0, 1, 2]}, "a list (a finite number, a finite number)"),
        ({"steps": [1, "x"]}, "a list (a whole number)"),
        ({"file": 3}, "a path"),
        ({"file": "a\0b"}, "NUL"),
        ({"color": "green"}, "one of red, blue; write e.g. color: red"),
        ({"flag": 1}, "true or false"),
        ({"width": 10**30}, "a whole number from 1 to 65536"),
        ({"width": 0}, "a whole number from 1 to 65536"),
        ({"share": 0}, "a finite number above 0 to 1"),
        ({"anything": math.nan}, "NaN"),
        ({"anything": 10**30}, "too large"),
    ],
)
def test_invalid_values_raise_one_line_that_names_the_option(given, wanted) -> None:
    (name,) = given
    with pytest.raises(UsageError) as caught:
        check(given)
    message = str(caught.value)
    assert message.startswith(f'toy "plugin": {name} ')
    assert wanted in message
    assert "\n" not in message


def test_unknown_and_supplied_names_are_errors() -> None:
    with pytest.raises(UsageError, match='toy "plugin" has no parameter "cuont"; did you mean "count"'):
        check({"cuont": 3})
    with pytest.raises(UsageError, match='has no parameter "labels"'):
        check({"labels": [1]})


def test_classes_and_partials_are_checked_like_functions() -> None:
    for target in (PluginClass, PluginFields, partial(PluginClass), partial(plugin, [1])):
        with pytest.raises(UsageError, match="count = 'x'"):
            check({"count": "x"}, target)


def test_an_external_plugin_is_checked_too() -> None:
    toys: Registry[Card, Any] = Registry("toy", Card)
    toys.register("mine")(PluginClass)
    assert toys.create("mine", count=2).count == 2
    with pytest.raises(UsageError, match=r'toy "mine": count = .x., but it takes a whole number'):
        toys.create("mine", count="x")


def test_errors_of_the_plugin_itself_are_one_line_too() -> None:
    def picky(*, size: int) -> None:
        raise ValueError(f"size {size} is\nodd")

    with pytest.raises(UsageError, match='toy "picky" cannot be made with size=3: ValueError: size 3 is odd'):
        call_plugin(picky, plugin='toy "picky"', options={"size": 3})
    with pytest.raises(UsageError, match='toy "picky" needs a value for size; add it'):
        call_plugin(picky, plugin='toy "picky"', options={})


REGISTRIES: list[Registry[Any, Any]] = [
    *(losses.registry, miners.registry, samplers.registry, models.registry, regularizers.registry),
    *(datasets, splits.registry, transforms.registry),
]


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_every_annotated_option_of_every_registered_plugin_is_checked(registry: Registry[Any, Any]) -> None:
    """An object of an unknown type is invalid unless the annotation accepts anything."""
    for name in built_in_names(registry):
        entry = registry[name]
        for option, parameter in entry.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD or parameter.annotation in ("npt.ArrayLike", "Rows"):
                continue
            assert parameter.annotation is not parameter.empty, f"{registry.kind} {name}: annotate {option}"
            with pytest.raises(UsageError, match=option):
                registry.check_options(entry, {option: object()})
