"""The contract of a miner."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from levelfield import miners
from levelfield.miners import Miner, Pairs, Triplets, Tuples
from levelfield.testing._batch import LABELS, make_batch
from levelfield.testing._report import raise_problems, watch_global_randomness

NAMES = {
    Pairs: ("pos_anchor", "positive", "neg_anchor", "negative"),
    Triplets: ("anchor", "positive", "negative"),
}


@dataclass(frozen=True)
class _Miner:
    make: Callable[[], Miner]
    finds: str | None
    by_class: bool


def check_miner(miner: str | Callable[..., Miner], *, by_class: bool = True, **options: Any) -> None:
    """Check a miner against the contract; AssertionError with everything that is wrong.

    It gives pairs or triplets of int64 indices into the batch, where positives share the anchor's class and
    are not the anchor, and negatives do not share it; empty ones where there are none. The same input and
    seed give the same tuples. It draws from no global generator, tracks no gradient and leaves its inputs
    alone.

    Args:
        miner: A registered name, or what makes the miner; one with a parameter ``generator`` gets one.
        by_class: Whether positives share the anchor's class and negatives do not; set to False for a miner
            that breaks this on purpose, as ``rho_switch`` does.
        **options: Handed to the miner.

    Example:
        >>> check_miner("semihard")
    """
    entry = miners.registry[miner] if isinstance(miner, str) else None
    target = miner if entry is None else entry.target
    assert callable(target)
    draws = "generator" in inspect.signature(target).parameters

    def make() -> Miner:
        extra = {"generator": torch.Generator().manual_seed(3)} if draws else {}
        made: Miner = target(**extra, **options)
        return made

    subject = _Miner(make, None if entry is None else entry.card.finds, by_class)
    name = entry.name if entry else getattr(target, "__name__", str(target))
    raise_problems(f"miner {name}", subject, [_tuples, _collapsed, _repeats, _precisions])


def _tuples(subject: _Miner) -> Iterator[str]:
    """Valid tuples on every batch."""
    for title in LABELS:
        x, labels = make_batch(title)
        before = x.detach().clone()
        found = subject.make()(x, labels)
        kind = {Pairs: "pairs", Triplets: "triplets"}.get(type(found))
        if kind is None:
            yield f"on {title} it gives {type(found).__name__}, not Pairs or Triplets"
            continue
        if subject.finds is not None and kind != subject.finds:
            yield f'on {title} it gives {kind}, its card says finds="{subject.finds}"'
        yield from (f"on {title} {problem}" for problem in _faults(subject, found, labels))
        if not torch.equal(before, x):
            yield f"on {title} it changes the embeddings in place"


def _faults(subject: _Miner, found: Tuples, labels: Tensor) -> Iterator[str]:
    for name, index in zip(NAMES[type(found)], found.indices, strict=True):
        if index.dtype != torch.int64 or index.ndim != 1:
            yield f"{name} is {index.dtype} of shape {tuple(index.shape)}, not a list of int64"
            return
        if index.requires_grad:
            yield f"{name} tracks a gradient"
        if len(index) and (int(index.min()) < 0 or int(index.max()) >= len(labels)):
            yield f"{name} points outside of the batch"
            return
    if isinstance(found, Triplets):
        groups = [(found.anchor, found.positive, True), (found.anchor, found.negative, False)]
    else:
        groups = [(found.pos_anchor, found.positive, True), (found.neg_anchor, found.negative, False)]
    for anchors, others, same in groups:
        word = "positive" if same else "negative"
        if len(anchors) != len(others):
            yield f"there are {len(anchors)} anchors for {len(others)} {word}s"
            return
        if not subject.by_class:
            continue
        if ((labels[anchors] == labels[others]) != same).any():
            yield f"a {word} is {'not ' if same else ''}of the anchor's class"
        if (anchors == others).any():
            yield f"an anchor is its own {word}"


def _collapsed(subject: _Miner) -> Iterator[str]:
    """Valid tuples also where embeddings coincide."""
    x, labels = make_batch("a balanced batch")
    found = subject.make()(x.detach()[:1].repeat(len(x), 1), labels)
    yield from (f"on collapsed embeddings {problem}" for problem in _faults(subject, found, labels))


def _repeats(subject: _Miner) -> Iterator[str]:
    """The same tuples for the same input and seed, without global randomness."""
    x, labels = make_batch("an unbalanced batch")
    problems: list[str] = []
    with watch_global_randomness(problems):
        one, two = subject.make()(x, labels), subject.make()(x, labels)
    yield from problems
    if any(not torch.equal(a, b) for a, b in zip(one.indices, two.indices, strict=True)):
        yield "two miners made alike give different tuples; draw from the generator alone"


def _precisions(subject: _Miner) -> Iterator[str]:
    """bfloat16 and float64 embeddings work."""
    x, labels = make_batch("a balanced batch")
    for dtype in (torch.bfloat16, torch.float64):
        found = subject.make()(x.to(dtype), labels)
        yield from (f"in {dtype} {problem}" for problem in _faults(subject, found, labels))
