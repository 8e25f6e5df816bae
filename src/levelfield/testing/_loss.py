"""The contract of a loss."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from levelfield import losses
from levelfield.errors import LevelfieldError
from levelfield.miners import Pairs, Triplets
from levelfield.testing._batch import CLASSES, LABELS, SIZE, make_batch
from levelfield.testing._report import raise_problems, watch_global_randomness


@dataclass(frozen=True)
class _Loss:
    make: Callable[[], nn.Module]
    classifies: bool
    tuples: bool | None  # None: not known
    order_matters: bool
    exact_gradient: bool


def check_loss(
    loss: str | Callable[..., nn.Module],
    *,
    order_matters: bool = False,
    exact_gradient: bool = True,
    **options: Any,
) -> None:
    """Check a loss against the contract; AssertionError with everything that is wrong.

    The value is a finite scalar with a finite gradient on any batch (also of one sample, of one class,
    without positives, collapsed), the same again for the same input, and draws from no global generator.
    It does not depend on the names of classes or the order of samples. Tuples that are empty give exactly
    zero. A classification loss learns weights and refuses labels it has none for. bfloat16, float64 and
    autocast work. The gradient is that of the value. A saved and loaded loss goes on as before.

    Args:
        loss: A registered name, or what makes the loss (a class or function). What takes a required
            ``num_classes`` is a classification loss; it gets that and ``embedding_size``.
        order_matters: Do not ask for the same value when the samples are shuffled.
        exact_gradient: Whether the gradient is that of the value; set to False for a loss that stops the
            gradient of a part of itself on purpose.
        **options: Handed to the loss.

    Example:
        >>> check_loss("triplet", margin=0.1)
    """
    entry = losses.registry[loss] if isinstance(loss, str) else None
    target = loss if entry is None else entry.target
    assert callable(target)
    parameter = inspect.signature(target).parameters.get("num_classes")
    classifies = parameter is not None and parameter.default is inspect.Parameter.empty
    shape = {"num_classes": CLASSES, "embedding_size": SIZE} if classifies else {}
    subject = _Loss(
        make=lambda: target(**shape, **options),
        classifies=classifies,
        tuples=None if entry is None else entry.card.tuples is not None,
        order_matters=order_matters,
        exact_gradient=exact_gradient,
    )
    name = entry.name if entry else getattr(target, "__name__", str(target))
    checks = [_values, _repeats, _symmetries, _tuples, _classes, _precisions, _gradient, _state]
    raise_problems(f"loss {name}", subject, checks)
    if entry is not None and (entry.card.kind == "classification") != classifies:
        raise AssertionError(f'loss {name}: its card says kind="{entry.card.kind}", its parameters do not')


def _values(subject: _Loss) -> Iterator[str]:
    """Finite on every batch, and on embeddings in one place."""
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
            yield f"on {title} it gives shape {tuple(value.shape)}, not a scalar"
            continue
        (gradient,) = torch.autograd.grad(value, embeddings)
        if not torch.isfinite(value):
            yield f"on {title} the value is {value.item()}"
        if not torch.isfinite(gradient).all():
            yield f"on {title} the gradient is not finite"
        if not torch.equal(before, embeddings):
            yield f"on {title} it changes the embeddings in place"


def _repeats(subject: _Loss) -> Iterator[str]:
    """The same value for the same input, without global randomness."""
    x, labels = make_batch("a balanced batch")
    problems: list[str] = []
    with watch_global_randomness(problems):
        values = [subject.make()(x, labels).item() for _ in range(2)]
    yield from problems
    if values[0] != values[1]:
        yield f"two new losses give {values[0]} and {values[1]} for the same input; seed what is random"


def _symmetries(subject: _Loss) -> Iterator[str]:
    """Neither the names of classes nor the order of samples matter."""
    x, labels = make_batch("an unbalanced batch", dtype=torch.float64)
    value = subject.make()(x, labels)
    if not subject.classifies and not torch.allclose(subject.make()(x, labels * 7 + 100), value):
        yield "the value changes when the classes are renumbered"
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    if not subject.order_matters and not torch.allclose(subject.make()(x[order], labels[order]), value):
        yield "the value changes when the samples are shuffled; if that is meant, set order_matters"


def _tuples(subject: _Loss) -> Iterator[str]:
    """Empty tuples give exactly zero; a loss that takes none says so."""
    if subject.tuples is None:
        return
    x, labels = make_batch("a balanced batch")
    none = torch.empty(0, dtype=torch.int64)
    for tuples in (Triplets(none, none, none), Pairs(none, none, none, none)):
        kind = type(tuples).__name__
        if not subject.tuples:
            if _has_tuples(subject.make()) and not _refuses(
                lambda tuples=tuples: subject.make()(x, labels, tuples)  # type: ignore[misc]
            ):
                yield f"its card says it takes no tuples, and it does not refuse {kind} with a UsageError"
            continue
        value = subject.make()(x, labels, tuples)
        if value.item() != 0:
            yield f"empty {kind} give {value.item()}, not zero"
        if torch.autograd.grad(value, x)[0].any():
            yield f"empty {kind} give a gradient that is not zero"


def _classes(subject: _Loss) -> Iterator[str]:
    """A classification loss learns weights, and refuses labels it has no weights for."""
    if not subject.classifies:
        return
    x, labels = make_batch("a balanced batch")
    loss = subject.make()
    loss(x, labels).backward()
    trained = [parameter for parameter in loss.parameters() if parameter.grad is not None]
    if not trained:
        yield "it has no parameter that gets a gradient"
    for wrong in (-1, CLASSES):
        if not _refuses(lambda wrong=wrong: loss(x, labels.clone().fill_(wrong))):  # type: ignore[misc]
            yield f"it does not refuse label {wrong} (of {CLASSES} classes) with a UsageError"


def _precisions(subject: _Loss) -> Iterator[str]:
    """bfloat16, float64 and autocast work."""
    title = "a balanced batch"
    expected = subject.make()(*make_batch(title)).item()
    for dtype in (torch.float64, torch.bfloat16):
        x, targets = make_batch(title, dtype=dtype)
        value = subject.make()(x, targets)
        (gradient,) = torch.autograd.grad(value, x)
        if not torch.isfinite(value) or not torch.isfinite(gradient).all():
            yield f"in {dtype} value or gradient are not finite"
        if dtype == torch.float64 and abs(value.item() - expected) > 1e-3 * max(1.0, abs(expected)):
            yield f"in float64 it gives {value.item()}, in float32 {expected}"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = subject.make()(*make_batch(title))
    if not torch.isfinite(value):
        yield "under autocast the value is not finite"


def _gradient(subject: _Loss) -> Iterator[str]:
    """The gradient is that of the value, measured along a random direction in float64."""
    if not subject.exact_gradient:
        return
    x, labels = make_batch("an unbalanced batch", dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    direction = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    (gradient,) = torch.autograd.grad(subject.make().double()(x, labels), x)
    claimed = (gradient * direction).sum().item()
    step = 1e-6
    ends = [subject.make().double()(x.detach() + sign * step * direction, labels).item() for sign in (1, -1)]
    measured = (ends[0] - ends[1]) / (2 * step)
    if abs(measured - claimed) > 1e-4 * max(1.0, abs(measured)):
        yield f"the slope of the value is {measured:.6g}, its gradient says {claimed:.6g}"


def _state(subject: _Loss) -> Iterator[str]:
    """A saved and loaded loss goes on as before."""
    x, labels = make_batch("a balanced batch")
    first, second = subject.make(), subject.make()
    first(x, labels)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(0.1)
    second.load_state_dict(first.state_dict())
    if first(x, labels).item() != second(x, labels).item():
        yield "a loss that loads the state_dict of another gives another value"


def _has_tuples(loss: nn.Module) -> bool:
    """Whether ``forward`` has a third parameter at all; without one there is nothing to refuse."""
    return len(inspect.signature(loss.forward).parameters) > 2


def _refuses(call: Callable[[], object]) -> bool:
    try:
        call()
    except LevelfieldError:
        return True
    except Exception:
        return False
    return False
