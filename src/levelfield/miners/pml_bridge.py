"""What the bridges to pytorch-metric-learning's losses and miners share. The package is imported lazily."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from levelfield.errors import UsageError, did_you_mean
from levelfield.geometry import Pairs, Triplets, Tuples

PARTS = {
    "distance": "distances",
    "reducer": "reducers",
    "embedding_regularizer": "regularizers",
    "weight_regularizer": "regularizers",
}
HIDDEN = {"self", "collect_stats", "mat_based_loss", "weight_init_func"}


def module(name: str) -> Any:
    """The module ``pytorch_metric_learning.name``, e.g. "losses"."""
    try:
        return importlib.import_module(f"pytorch_metric_learning.{name}")
    except ModuleNotFoundError as error:
        raise UsageError(
            f'names with "pml:" need pytorch-metric-learning, but there is no module {error.name}; '
            'install it with: pip install "levelfield[peers]"'
        ) from error


def find_class(kind: str, name: str, *, base: str, refused: Mapping[str, str]) -> type:
    """The loss or miner class ``name`` in module ``kind``, a subclass of ``base`` that is not ``refused``."""
    source = module(kind)
    root = getattr(source, base)
    classes = {
        key: value
        for key, value in vars(source).items()
        if inspect.isclass(value) and issubclass(value, root) and value is not root
    }
    if name in refused:
        raise UsageError(f"pml:{name} {refused[name]}; choose another of pytorch-metric-learning's {kind}")
    if name not in classes:
        known = classes.keys() - refused.keys()
        raise UsageError(f"pytorch-metric-learning has no {name} among its {kind}{did_you_mean(name, known)}")
    return classes[name]


def parameters_of(target: type) -> dict[str, inspect.Parameter]:
    """The keyword arguments of a class whose constructors hand theirs on to their bases' by ``**kwargs``."""
    found: dict[str, inspect.Parameter] = {}
    for cls in target.__mro__:
        if not cls.__module__.startswith("pytorch_metric_learning") or "__init__" not in vars(cls):
            continue
        for name, parameter in inspect.signature(vars(cls)["__init__"]).parameters.items():
            named = parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
            if named and name not in HIDDEN:
                found.setdefault(name, parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    return found


def factory(
    name: str, make: Callable[..., Any], parameters: Mapping[str, inspect.Parameter], extra: Mapping[str, Any]
) -> Callable[..., Any]:
    """``make`` with a signature of its own, so that a registry can check options and name the nearest.

    Args:
        name: For errors.
        make: Called with the keyword arguments.
        parameters: The class's own.
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
            raise UsageError(f"pml:{name} needs a value for {' and '.join(missing)}")
        try:
            return make(**options)
        except (AssertionError, TypeError, ValueError) as error:
            if isinstance(error, UsageError):
                raise
            raise UsageError(
                f"pml:{name} refuses its options {options}: {error or 'no reason given'}"
            ) from error

    target.__signature__ = signature  # type: ignore[attr-defined]
    return target


def with_parts(options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` with distances, reducers and regularizers made from their names.

    A part is given as ``"CosineSimilarity"``, or with options as ``{"name": "LpDistance", "power": 2}``.
    """
    return {key: _part(key, value) if key in PARTS else value for key, value in options.items()}


def _part(key: str, value: Any) -> Any:
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        return value
    kind = PARTS[key]
    source = module(kind)
    options = dict(value)
    name = options.pop("name", None)
    known = [each for each in vars(source) if inspect.isclass(vars(source)[each])]
    if name not in known:
        raise UsageError(
            f"pytorch-metric-learning has no {name} among its {kind}{did_you_mean(str(name), known)}"
        )
    return getattr(source, name)(**options)


@contextmanager
def own_stream(seed: int, device: torch.device) -> Iterator[None]:
    """Let code that draws from torch's global generators draw from a stream of its own instead."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(seed)
        if devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def from_pml(indices: tuple[Tensor, ...]) -> Tuples:
    """Our tuples from theirs: three index tensors are triplets, four are positive and negative pairs.

    Example:
        >>> from_pml((torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))).positive
        tensor([1])
    """
    return Triplets(*indices) if len(indices) == 3 else Pairs(*indices)


def to_pml(tuples: Tuples | None) -> tuple[Tensor, ...] | None:
    """Their tuples from ours.

    Example:
        >>> to_pml(Triplets(torch.tensor([0]), torch.tensor([1]), torch.tensor([2])))
        (tensor([0]), tensor([1]), tensor([2]))
    """
    return None if tuples is None else tuples.indices
