"""Common code of the bridges to losses and miners of pytorch-metric-learning, which is imported lazily."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.geometry import MinedTuples, Pairs, Triplets

PARTS = {
    "distance": "distances",
    "reducer": "reducers",
    "embedding_regularizer": "regularizers",
    "weight_regularizer": "regularizers",
}
HIDDEN = {"self", "collect_stats", "mat_based_loss", "weight_init_func"}


def import_pml_module(name: str) -> Any:
    """Return the module ``pytorch_metric_learning.name``, such as "losses"."""
    try:
        return importlib.import_module(f"pytorch_metric_learning.{name}")
    except ModuleNotFoundError as error:
        raise UsageError(
            f'names with "pml:" need pytorch-metric-learning, but there is no module {error.name}; '
            'install it with: pip install "levelfield[peers]"'
        ) from error


def find_class(kind: str, name: str, *, base: str, refused: Mapping[str, str]) -> type:
    """Return the loss or miner class ``name`` of module ``kind``.

    Args:
        kind: "losses" or "miners".
        name: Name of the class.
        base: Name of its base class.
        refused: Classes that do not work with levelfield, each with the reason and the remedy.
    """
    source = import_pml_module(kind)
    root = getattr(source, base)
    classes = {
        key: value
        for key, value in vars(source).items()
        if inspect.isclass(value) and issubclass(value, root) and value is not root
    }
    if name in refused:
        raise UsageError(f"pml:{name} {refused[name]}")
    if name not in classes:
        known = classes.keys() - refused.keys()
        raise UsageError(f"pytorch-metric-learning has no {name} among its {kind}{did_you_mean(name, known)}")
    return classes[name]


def collect_parameters(target: type) -> dict[str, inspect.Parameter]:
    """Return the keyword arguments of a class and of its base classes, which it passes on by ``**kwargs``."""
    found: dict[str, inspect.Parameter] = {}
    for cls in target.__mro__:
        if not cls.__module__.startswith("pytorch_metric_learning") or "__init__" not in vars(cls):
            continue
        for name, parameter in inspect.signature(vars(cls)["__init__"]).parameters.items():
            named = parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            if named and name not in HIDDEN:
                found.setdefault(name, parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    return found


def make_factory(
    name: str, make: Callable[..., Any], parameters: Mapping[str, inspect.Parameter], extra: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return ``make`` with an explicit signature, so that a registry can check options and suggest names.

    Args:
        name: Name for error messages.
        make: Function that takes the keyword arguments.
        parameters: Parameters of the class.
        extra: Further keyword arguments with their defaults.
    """
    further = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=value) for key, value in extra.items()
    ]
    signature = inspect.Signature([*parameters.values(), *further])
    required = [key for key, parameter in parameters.items() if parameter.default is parameter.empty]

    def target(**options: Any) -> Any:
        missing = [key for key in required if key not in options]
        if missing:
            raise UsageError(f"pml:{name} needs a value for {' and '.join(missing)}; add it")
        try:
            return make(**options)
        except (AssertionError, TypeError, ValueError) as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(
                f"pml:{name} rejects the options {options}: {error or 'no reason given'}; correct them"
            ) from error

    target.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
    return target


def create_parts(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``options`` with distances, reducers and regularizers created from their names.

    A part is a name, ``"CosineSimilarity"``, or a mapping with options, ``{"name": "LpDistance", "power":
    2}``. Reducers in a reducer are parts too.
    """
    return {key: _create_part(key, value) if key in PARTS else value for key, value in options.items()}


def _create_part(key: str, value: Any) -> Any:
    if isinstance(value, str):
        value = {"name": value}
    kind = PARTS[key]
    if value is None or isinstance(value, torch.nn.Module):
        return value
    if not isinstance(value, Mapping) or "name" not in value:
        example = {"distance": "LpDistance", "reducer": "ThresholdReducer"}.get(key, "LpRegularizer")
        option = {"distance": "power: 2", "reducer": "low: 0.1"}.get(key, "power: 2")
        raise UsageError(
            f"{key} is {value!r}; give one name of pytorch-metric-learning's {kind}, such as {example}, or "
            f"{{name: {example}, {option}}}"
        )
    source = import_pml_module(kind)
    options = dict(value)
    name = options.pop("name", None)
    known = [each for each in vars(source) if inspect.isclass(vars(source)[each])]
    if name not in known:
        raise UsageError(
            f"pytorch-metric-learning has no {name} among its {kind}{did_you_mean(str(name), known)}"
        )
    parameters = collect_parameters(getattr(source, name))
    for option, given in options.items():
        default = parameters[option].default if option in parameters else None
        if type(default) in (int, float) and (isinstance(given, bool) or not isinstance(given, int | float)):
            raise UsageError(f"{option} of {name} is {given!r}; give a number")
        if option in ("reducer", "default_reducer"):
            options[option] = _create_part("reducer", given)
        elif option == "reducers":
            if not isinstance(given, Mapping):
                raise UsageError(
                    f"reducers of {name} is {given!r}; give a reducer for each part of the loss, such as "
                    "{pos_loss: MeanReducer, neg_loss: SumReducer}"
                )
            options[option] = {each: _create_part("reducer", part) for each, part in given.items()}
        elif option == "weights":  # a list in a file; that library expects a tensor
            options[option] = torch.as_tensor(given, dtype=torch.float32)
    return getattr(source, name)(**options)


@contextmanager
def isolate_global_rng(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators inside the block and restore their states at the end."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def from_pml(indices: tuple[Tensor, ...]) -> MinedTuples:
    """Convert tuples from pytorch-metric-learning: three index tensors are triplets, four are pairs.

    Example:
        >>> from_pml((torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))).positive
        tensor([1])
    """
    return Triplets(*indices) if len(indices) == 3 else Pairs(*indices)


def to_pml(tuples: MinedTuples | None) -> tuple[Tensor, ...] | None:
    """Convert tuples to pytorch-metric-learning.

    Example:
        >>> to_pml(Triplets(torch.tensor([0]), torch.tensor([1]), torch.tensor([2])))
        (tensor([0]), tensor([1]), tensor([2]))
    """
    return None if tuples is None else tuples.indices
