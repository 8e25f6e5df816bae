"""Contract of a loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from levelfield import losses
from levelfield.core.errors import LevelfieldError
from levelfield.miners import Pairs, Triplets
from levelfield.testing._batch import CLASSES, LABELS, SIZE, make_batch
from levelfield.testing._run import CheckedPlugin, Checks, find_plugins, run_checks, watch_global_randomness


@dataclass(frozen=True)
class _Loss:
    make: Callable[[], nn.Module]
    classifies: bool
    kind: str | None  # on the card; None if the loss is not registered
    tuples: bool | None  # None if the loss is not registered
    order_matters: bool


def check_loss(
    loss: str | Path | Callable[..., nn.Module],
    *,
    order_matters: bool = False,
    exact_gradient: bool = True,
    **options: Any,
) -> None:
    """Check a loss against its contract; print one line per check and raise AssertionError on problems.

    - The value is a scalar. Value and gradient are finite for every batch: of one sample, of one class,
      without positives, with identical embeddings.
    - The same input gives the same value. The loss does not use global random generators.
    - The value does not depend on the numbers of the classes or on the order of the samples.
    - Empty tuples give exactly zero.
    - A classification loss trains its weights and raises UsageError for unknown labels.
    - bfloat16, float64 and autocast work.
    - The gradient matches finite differences of the value.
    - Loading the state_dict restores the loss.

    Args:
        loss: Registered name, class or function that makes the loss, or path of your Python file. A loss
            with a required parameter ``num_classes`` is a classification loss; it also gets
            ``embedding_size``.
        order_matters: Skip the check that shuffled samples give the same value.
        exact_gradient: Set to False for a loss that stops a part of its gradient on purpose.
        **options: Options of the loss.

    Example:
        >>> check_loss("triplet", margin=0.1)
        loss triplet
          ok: value and gradient are finite for every batch
          ok: the same input gives the same value, without global randomness
          ...
    """
    for plugin in find_plugins(losses.registry, loss):
        _check_plugin(plugin, options, order_matters=order_matters, exact_gradient=exact_gradient)


def _check_plugin(
    plugin: CheckedPlugin[losses.LossCard],
    options: dict[str, Any],
    *,
    order_matters: bool,
    exact_gradient: bool,
) -> None:
    parameter = inspect.signature(plugin.target).parameters.get("num_classes")
    classifies = parameter is not None and parameter.default is inspect.Parameter.empty
    shape = {"num_classes": CLASSES, "embedding_size": SIZE} if classifies else {}
    subject = _Loss(
        make=lambda: plugin.target(**shape, **options),
        classifies=classifies,
        kind=None if plugin.entry is None else plugin.entry.card.kind,
        tuples=None if plugin.entry is None else plugin.entry.card.tuples is not None,
        order_matters=order_matters,
    )
    checks: Checks[_Loss] = {
        "value and gradient are finite for every batch": _values,
        "the same input gives the same value, without global randomness": _repeats,
        "class numbers and the order of samples do not matter": _symmetries,
        "bfloat16, float64 and autocast work": _precisions,
        "loading the state_dict restores the loss": _state,
        **({"the gradient matches finite differences": _gradient} if exact_gradient else {}),
        **({"weights are trained, unknown labels raise UsageError": _classes} if classifies else {}),
        **({} if plugin.entry is None else {"kind and tuples match the card": _card_facts}),
    }
    run_checks(f"loss {plugin.name}", subject, checks)


def _values(subject: _Loss) -> Iterator[str]:
    batches = {title: make_batch(title) for title in LABELS}
    x, labels = batches["a balanced batch"]
    for title, vectors in (
        ("collapsed embeddings", x.detach()[:1].repeat(len(x), 1)),
        ("embeddings that are all zero", torch.zeros_like(x)),
        ("embeddings that occur twice", x.detach()[[0, 1, 2, 3, 0, 1, 2, 3]]),
    ):
        batches[title] = (vectors.requires_grad_(), labels)
    for title, (embeddings, targets) in batches.items():
        before = embeddings.detach().clone()
        value = subject.make()(embeddings, targets)
        if value.ndim != 0:
            yield f"on {title} the value has shape {tuple(value.shape)}; return a scalar"
            continue
        (gradient,) = torch.autograd.grad(value, embeddings)
        if not torch.isfinite(value):
            yield f"on {title} the value is {value.item()}"
        if not torch.isfinite(gradient).all():
            yield f"on {title} the gradient is not finite"
        if not torch.equal(before, embeddings):
            yield f"on {title} it changes the embeddings in place"


def _repeats(subject: _Loss) -> Iterator[str]:
    x, labels = make_batch("a balanced batch")
    problems: list[str] = []
    with watch_global_randomness(problems):
        values = [subject.make()(x, labels).item() for _ in range(2)]
    yield from problems
    if values[0] != values[1]:
        yield f"two new losses give {values[0]} and {values[1]} for the same input; seed its random numbers"


def _symmetries(subject: _Loss) -> Iterator[str]:
    x, labels = make_batch("an unbalanced batch", dtype=torch.float64)
    value = subject.make()(x, labels)
    if not subject.classifies and not torch.allclose(subject.make()(x, labels * 7 + 100), value):
        yield "the value changes when the classes are renumbered"
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    if not subject.order_matters and not torch.allclose(subject.make()(x[order], labels[order]), value):
        yield "the value changes when the samples are shuffled; if this is intended, set order_matters"


def _card_facts(subject: _Loss) -> Iterator[str]:
    if (subject.kind == "classification") != subject.classifies:
        yield f'its card says kind="{subject.kind}", which does not match its parameters'
    x, labels = make_batch("a balanced batch")
    none = torch.empty(0, dtype=torch.int64)
    for tuples in (Triplets(none, none, none), Pairs(none, none, none, none)):
        kind = type(tuples).__name__
        if not subject.tuples:
            if _has_tuples(subject.make()) and not _raises_usage_error(
                # mypy infers no type for a lambda with defaults
                lambda tuples=tuples: subject.make()(x, labels, tuples)  # type: ignore[misc]
            ):
                yield f"its card says that it takes no tuples, but it does not raise UsageError for {kind}"
            continue
        value = subject.make()(x, labels, tuples)
        if value.item() != 0:
            yield f"empty {kind} give {value.item()}, not zero"
        if torch.autograd.grad(value, x)[0].any():
            yield f"empty {kind} give a gradient that is not zero"


def _classes(subject: _Loss) -> Iterator[str]:
    x, labels = make_batch("a balanced batch")
    loss = subject.make()
    loss(x, labels).backward()
    trained = [parameter for parameter in loss.parameters() if parameter.grad is not None]
    if not trained:
        yield "it has no parameter that gets a gradient"
    for wrong in (-1, CLASSES):
        bad_labels = labels.clone().fill_(wrong)
        if not _raises_usage_error(partial(loss, x, bad_labels)):
            yield f"it does not raise UsageError for label {wrong} of {CLASSES} classes"


def _precisions(subject: _Loss) -> Iterator[str]:
    title = "a balanced batch"
    expected = subject.make()(*make_batch(title)).item()
    for dtype in (torch.float64, torch.bfloat16):
        x, targets = make_batch(title, dtype=dtype)
        value = subject.make()(x, targets)
        (gradient,) = torch.autograd.grad(value, x)
        if not torch.isfinite(value) or not torch.isfinite(gradient).all():
            yield f"value or gradient are not finite in {dtype}"
        if dtype == torch.float64 and abs(value.item() - expected) > 1e-3 * max(1.0, abs(expected)):
            yield f"the value is {value.item()} in float64, but {expected} in float32"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = subject.make()(*make_batch(title))
    if not torch.isfinite(value):
        yield "the value is not finite under autocast"


def _gradient(subject: _Loss) -> Iterator[str]:
    x, labels = make_batch("an unbalanced batch", dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    direction = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    (gradient,) = torch.autograd.grad(subject.make().double()(x, labels), x)
    claimed = (gradient * direction).sum().item()
    step = 1e-6
    ends = [subject.make().double()(x.detach() + sign * step * direction, labels).item() for sign in (1, -1)]
    measured = (ends[0] - ends[1]) / (2 * step)
    if abs(measured - claimed) > 1e-4 * max(1.0, abs(measured)):
        yield f"the gradient in a random direction is {claimed:.6g}, finite differences are {measured:.6g}"


def _state(subject: _Loss) -> Iterator[str]:
    x, labels = make_batch("a balanced batch")
    first, second = subject.make(), subject.make()
    first(x, labels)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(0.1)
    second.load_state_dict(first.state_dict())
    if first(x, labels).item() != second(x, labels).item():
        yield "a loss with a loaded state_dict gives a different value"


def _has_tuples(loss: nn.Module) -> bool:
    """Return whether ``forward`` has a third parameter."""
    return len(inspect.signature(loss.forward).parameters) > 2


def _raises_usage_error(call: Callable[[], object]) -> bool:
    try:
        call()
    except LevelfieldError:
        return True
    except Exception:
        return False
    return False
