"""Validation of plug-in options against the signature of the plug-in.

Pydantic checks each option against its annotation. An option without an annotation, or with an annotation
that pydantic cannot check, is passed on unchanged. To limit a number, annotate the
parameter: ``width: Size = 32`` or ``folds: Annotated[int, Field(ge=1, le=100)] = 4``.
"""

from __future__ import annotations

import errno
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

from levelfield.core.errors import UsageError, did_you_mean

Size: TypeAlias = Annotated[int, Field(ge=1, le=65_536)]
"""Number of things that take memory: samples in a batch, channels, dimensions, bins."""

ImageSize: TypeAlias = Annotated[int, Field(ge=1, le=4096)]
"""Side length of an image in pixels."""

Positive: TypeAlias = Annotated[float, Field(gt=0)]
"""Number above 0, such as a learning rate."""

MAX_INT64 = 2**63 - 1  # the largest integer of NumPy and PyTorch
_SETTINGS = ConfigDict(arbitrary_types_allowed=True, allow_inf_nan=False, strict=True)
# Errors of a path that an option names: too long, a loop of links, no permission, missing, of another kind.
_PATH_ERRORS = {
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EACCES,
    errno.EPERM,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EINVAL,
}
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def validate_options(
    target: Callable[..., Any],
    options: Mapping[str, Any],
    *,
    plugin: str,
    supplied: Collection[str] = (),
) -> dict[str, Any]:
    """Return the options converted to the types of ``target``; raise UsageError for invalid names or values.

    Integers are converted to floats, text to paths and enumeration members, lists to tuples. Nothing else is
    converted: text and booleans are not numbers. NaN and infinity are errors.

    Args:
        target: Class or function of the plug-in.
        options: Options of the user, by name.
        plugin: Name of the plug-in for error messages, such as 'split plan "mlrc"'.
        supplied: Parameters that levelfield passes, so that users cannot set them.

    Example:
        >>> def crop(*, size: int = 224, scale: tuple[float, float] = (0.2, 1.0)) -> None: ...
        >>> validate_options(crop, {"scale": [0.5, 1]}, plugin="crop")
        {'scale': (0.5, 1.0)}
        >>> validate_options(crop, {"size": "x"}, plugin="crop")
        Traceback (most recent call last):
        ...
        levelfield.core.errors.UsageError: crop: size = 'x', but it takes a whole number; write e.g. size: 224
    """
    parameters = _parameters(target)
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    known = [name for name, p in parameters.items() if p.kind not in _VARIADIC and name not in supplied]
    hints = _type_hints(target)
    checked = {}
    for name, value in options.items():
        if name in supplied or (name not in known and not takes_any):
            raise UsageError(f'{plugin} has no parameter "{name}"{did_you_mean(name, known)}')
        found = parameters.get(name)
        default = inspect.Parameter.empty if found is None else found.default
        checked[name] = _check_value(value, hints.get(name, Any), f"{plugin}: {name}", default)
    return checked


def check_value(value: Any, annotation: Any, *, name: str) -> Any:
    """Return one value, checked like an option by :func:`validate_options`; error messages call it ``name``.

    Example:
        >>> check_value(3, float, name="method triplet: margin")
        3.0
    """
    return _check_value(value, annotation, name, inspect.Parameter.empty)


def parameter_annotation(target: Callable[..., Any], name: str) -> Any:
    """Return the annotation of the parameter ``name`` of ``target``; Any if there is none."""
    return _type_hints(target).get(name, Any)


def call_plugin(target: Callable[..., Any], *args: Any, plugin: str, options: Mapping[str, Any]) -> Any:
    """Return ``target(*args, **options)``; raise UsageError for missing or rejected parameters.

    Example:
        >>> def table(*, file: str) -> str: return file
        >>> call_plugin(table, plugin='dataset "csv"', options={})
        Traceback (most recent call last):
        ...
        levelfield.core.errors.UsageError: dataset "csv" needs a value for file; add it
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
    except (TypeError, ValueError, ArithmeticError, MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno not in _PATH_ERRORS:
            raise  # of the machine, not of an option
        shown = ", ".join(f"{name}={_shorten(value)}" for name, value in options.items())
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"{plugin} cannot be made with {shown or 'no options'}: {reason}") from error


def describe_type(annotation: Any) -> str:
    """Return a type annotation in words, for error messages.

    Example:
        >>> describe_type(int | None), describe_type(Literal["hard", "easy"])
        ('a whole number or null', 'one of hard, easy')
        >>> describe_type(Size)
        'a whole number from 1 to 65536'
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return describe_type(arguments[0]) + _describe_limits(arguments[1:])
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(each) for each in arguments)
    if origin is Literal:
        return "one of " + ", ".join(str(each) for each in arguments)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "one of " + ", ".join(str(each.value) for each in annotation)
    if origin is not None and arguments and origin is not Callable:
        inside = ", ".join(describe_type(each) for each in arguments if each is not ...)
        return f"a list ({inside})" if origin not in (dict, Mapping) else f"key: value lines ({inside})"
    return _TYPE_NAMES.get(annotation, getattr(annotation, "__name__", str(annotation)))


_TYPE_NAMES: dict[Any, str] = {
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


def _describe_limits(metadata: tuple[Any, ...]) -> str:
    """Return the bounds of an annotated number in words."""
    bounds = [bound for each in metadata for bound in getattr(each, "metadata", [each])]
    known = [bound for bound in bounds if type(bound) in _BOUNDS]
    return "".join(f" {_BOUNDS[type(b)]} {getattr(b, type(b).__name__.lower())}" for b in known)


def _check_value(value: Any, annotation: Any, name: str, default: Any) -> Any:
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation, config=_SETTINGS)
    except (PydanticUserError, SchemaError, TypeError, NameError):  # pydantic cannot check this annotation
        adapter = TypeAdapter(Any)
    try:
        result = _validate_strictly(adapter, value)
    except ValidationError as error:
        wanted = f"but it takes {describe_type(annotation)}{_example(name, default)}"
        raise UsageError(f"{name} = {_shorten(value)}, {wanted}") from error
    except TypeError:  # a Protocol that isinstance cannot check
        result = value
    for each in _iterate_leaves(result):
        if isinstance(each, int) and abs(each) > MAX_INT64:
            raise UsageError(f"{name} = {_shorten(value)} is too large; whole numbers go up to 2^63 - 1")
        if isinstance(each, float) and math.isnan(each):
            raise UsageError(f"{name} is NaN, not a number; write a number, or leave the option out")
        if isinstance(each, str | Path) and "\0" in str(each):
            raise UsageError(f"{name} = {_shorten(value)} contains a NUL character; remove it")
    return result


def _validate_strictly(adapter: TypeAdapter[Any], value: Any) -> Any:
    """Return the value without conversions if it is valid, else with those of JSON (list to tuple, ...)."""
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


def _iterate_leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from _iterate_leaves(each)
    else:
        yield value


def _shorten(value: Any) -> str:
    """Return ``repr(value)`` on one line of at most 60 characters."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > MAX_INT64:
        return f"a number of {value.bit_length()} bits"
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _parameters(target: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(target).parameters
    except (TypeError, ValueError):  # built-in function without a signature: accept any option
        return {"options": inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD)}


def _type_hints(target: Callable[..., Any]) -> dict[str, Any]:
    """Return the resolved annotations of the parameters of ``target``; omit those that cannot be resolved."""
    while isinstance(target, partial):
        target = target.func
    function: Any = inspect.unwrap(target)
    if is_dataclass(function) and inspect.isclass(function):  # resolve each field in its own module
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
            except Exception:  # not importable at run time, or not a type
                found.pop(name, None)
    return found
