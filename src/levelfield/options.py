"""Options of plug-ins, checked by type: once, for every kind of plug-in, a user's own included.

What a plug-in takes is what its signature says; an option is checked against its annotation by pydantic. An
option without an annotation, or with one that pydantic cannot check, passes as it is. To limit a number, say
so where the option is declared: ``width: Size = 32`` or ``folds: Annotated[int, Field(ge=1, le=100)] = 4``.
"""

from __future__ import annotations

import inspect
import json
import math
import sys
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError

from levelfield.errors import UsageError, did_you_mean

Size: TypeAlias = Annotated[int, Field(ge=1, le=65_536)]
"""How many of something that takes memory: samples in a batch, channels, dimensions, bins."""

ImageSize: TypeAlias = Annotated[int, Field(ge=1, le=4096)]
"""The side of an image in pixels."""

Positive: TypeAlias = Annotated[float, Field(gt=0)]
"""A number above 0, such as a learning rate."""

LARGEST = 2**63 - 1  # no whole number beyond 64 bits has a use, and NumPy and torch cannot hold one
_SETTINGS = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False, strict=True)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def validated(
    target: Callable[..., Any],
    options: Mapping[str, Any],
    *,
    plugin: str,
    supplied: Collection[str] = (),
) -> dict[str, Any]:
    """The options as ``target`` is to get them; UsageError for a name or a value that it cannot take.

    A whole number may stand for a real one, text for a path or a member of an enumeration, a list for a
    tuple. Nothing else is converted: neither text nor true and false are numbers, and NaN and infinity are
    refused.

    Args:
        target: The plug-in's function or class.
        options: What the user gives, by name.
        plugin: How messages call it, such as 'split plan "mlrc"'.
        supplied: Parameters that are not the user's to give.

    Example:
        >>> def crop(*, size: int = 224, scale: tuple[float, float] = (0.2, 1.0)) -> None: ...
        >>> validated(crop, {"scale": [0.5, 1]}, plugin="crop")
        {'scale': (0.5, 1.0)}
        >>> validated(crop, {"size": "x"}, plugin="crop")
        Traceback (most recent call last):
        ...
        levelfield.errors.UsageError: crop: size = 'x', but it takes a whole number; write e.g. size: 224
    """
    parameters = _parameters(target)
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    known = [name for name, p in parameters.items() if p.kind not in _VARIADIC and name not in supplied]
    hints = _hints(target)
    checked = {}
    for name, value in options.items():
        if name in supplied or (name not in known and not takes_any):
            raise UsageError(f'{plugin} has no parameter "{name}"{did_you_mean(name, known)}')
        found = parameters.get(name)
        default = inspect.Parameter.empty if found is None else found.default
        checked[name] = _checked(value, hints.get(name, Any), f"{plugin}: {name}", default)
    return checked


def check_value(value: Any, annotation: Any, *, name: str) -> Any:
    """One value, checked as :func:`validated` checks options; ``name`` is how messages call it.

    Example:
        >>> check_value(3, float, name="method triplet: margin")
        3.0
    """
    return _checked(value, annotation, name, inspect.Parameter.empty)


def annotation_of(target: Callable[..., Any], name: str) -> Any:
    """What the signature of ``target`` says of the parameter ``name``; Any if it says nothing."""
    return _hints(target).get(name, Any)


def call(target: Callable[..., Any], *args: Any, plugin: str, options: Mapping[str, Any]) -> Any:
    """``target(*args, **options)``; what it refuses, or lacks, becomes a UsageError of one line.

    Example:
        >>> def table(*, file: str) -> str: return file
        >>> call(table, plugin='dataset "csv"', options={})
        Traceback (most recent call last):
        ...
        levelfield.errors.UsageError: dataset "csv" needs a value for file; add it
    """
    needed = [
        name
        for name, parameter in list(_parameters(target).items())[len(args) :]
        if parameter.kind not in _VARIADIC and parameter.default is parameter.empty and name not in options
    ]
    if needed:
        raise UsageError(f"{plugin} needs a value for {' and '.join(needed)}; add it")
    try:
        return target(*args, **options)
    except UsageError:
        raise
    except (TypeError, ValueError, ArithmeticError, MemoryError) as error:
        shown = ", ".join(f"{name}={_short(value)}" for name, value in options.items())
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"{plugin} cannot be made with {shown or 'no options'}: {reason}") from error


def describe(annotation: Any) -> str:
    """A type in plain words.

    Example:
        >>> describe(int | None), describe(Literal["hard", "easy"])
        ('a whole number or null', 'one of hard, easy')
        >>> describe(Size)
        'a whole number from 1 to 65536'
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return describe(arguments[0]) + _limits(arguments[1:])
    if origin in (Union, types.UnionType):
        return " or ".join(describe(each) for each in arguments)
    if origin is Literal:
        return "one of " + ", ".join(str(each) for each in arguments)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "one of " + ", ".join(str(each.value) for each in annotation)
    if origin is not None and arguments and origin is not Callable:
        inside = ", ".join(describe(each) for each in arguments if each is not ...)
        return f"a list ({inside})" if origin not in (dict, Mapping) else f"key: value lines ({inside})"
    return _PLAIN.get(annotation, getattr(annotation, "__name__", str(annotation)))


_PLAIN: dict[Any, str] = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "text",
    Path: "a path",
    type(None): "null",
    None: "null",
    Any: "any value",
    list: "a list",
    tuple: "a list",
    dict: "key: value lines",
}


_BOUNDS = {Ge: "from", Gt: "above", Le: "to", Lt: "below"}


def _limits(metadata: tuple[Any, ...]) -> str:
    """The bounds of an annotated number in words."""
    bounds = [bound for each in metadata for bound in getattr(each, "metadata", [each])]
    known = [bound for bound in bounds if type(bound) in _BOUNDS]
    return "".join(f" {_BOUNDS[type(b)]} {getattr(b, type(b).__name__.lower())}" for b in known)


def _checked(value: Any, annotation: Any, name: str, default: Any) -> Any:
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation, config=_SETTINGS)
    except (PydanticUserError, SchemaError, TypeError, NameError):  # nothing that pydantic can check
        adapter = TypeAdapter(Any)
    try:
        result = _strictly(adapter, value)
    except ValidationError as error:
        wanted = f"but it takes {describe(annotation)}{_example(name, default)}"
        raise UsageError(f"{name} = {_short(value)}, {wanted}") from error
    except TypeError:  # a protocol that isinstance cannot check
        result = value
    for each in _leaves(result):
        if isinstance(each, int) and abs(each) > LARGEST:
            raise UsageError(f"{name} = {_short(value)} is too large; whole numbers go up to 2^63 - 1")
        if isinstance(each, float) and math.isnan(each):
            raise UsageError(f"{name} is NaN, not a number; write a number, or leave the option out")
        if isinstance(each, str | Path) and "\0" in str(each):
            raise UsageError(f"{name} = {_short(value)} holds a NUL character; remove it")
    return result


def _strictly(adapter: TypeAdapter[Any], value: Any) -> Any:
    """The value without conversions, or with those that a text format needs (a list for a tuple, ...)."""
    try:
        return adapter.validate_python(value)
    except ValidationError:
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            text = ""
        if not text:
            raise
        return adapter.validate_json(text)


def _example(name: str, default: Any) -> str:
    if default is inspect.Parameter.empty or default is None:
        return "; correct it"
    shown = default.value if isinstance(default, Enum) else default
    return f"; write e.g. {name.rpartition(' ')[2]}: {shown}"


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _leaves(each)
    else:
        yield value


def _short(value: Any) -> str:
    """The value as Python writes it, on one line and not too long."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST:
        return f"a number of {value.bit_length()} bits"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _parameters(target: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(target).parameters
    except (TypeError, ValueError):  # built in, without a signature: it takes what it takes
        return {"options": inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)}


def _hints(target: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a target's parameters, resolved; those that cannot be resolved are left out."""
    while isinstance(target, partial):
        target = target.func
    function: Any = inspect.unwrap(target)
    if is_dataclass(function) and inspect.isclass(function):  # each field in the words of its own module
        sources: list[tuple[dict[str, Any], Mapping[str, Any]]] = [
            (vars(sys.modules[base.__module__]), vars(base)) for base in reversed(function.__mro__)
        ]
    else:
        if inspect.isclass(function):
            function = function.__init__
        elif not inspect.isroutine(function):
            function = type(function).__call__
        sources = [
            (
                getattr(function, "__globals__", {}),
                {"__annotations__": getattr(function, "__annotations__", {})},
            )
        ]
    found: dict[str, Any] = {}
    for names, holder in sources:
        for name, annotation in holder.get("__annotations__", {}).items():
            alone = types.SimpleNamespace(__annotations__={name: annotation})
            try:
                found |= get_type_hints(alone, globalns=names, include_extras=True)
            except Exception:  # imported for type checkers only, or no type at all: it cannot be checked
                found.pop(name, None)
    return found
