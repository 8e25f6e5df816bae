"""Contract of a miner."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from levelfield import miners
from levelfield.miners import MinedTuples, Miner, Pairs, Triplets
from levelfield.testing._batch import LABELS, make_batch
from levelfield.testing._run import CheckedPlugin, Checks, find_plugins, run_checks, watch_global_randomness

NAMES = {
    Pairs: ("pos_anchor", "positive", "neg_anchor", "negative"),
    Triplets: ("anchor", "positive", "negative"),
}


@dataclass(frozen=True)
class _Miner:
    make: Callable[[], Miner]
    finds: str | None
    by_class: bool


def check_miner(miner: str | Path | Callable[..., Miner], *, by_class: bool = True, **options: Any) -> None:
    """Check a miner against its contract; print one line per check and raise AssertionError on problems.

    - It returns pairs or triplets of int64 row numbers of the batch, possibly empty. Positives share the
      anchor's class and are not the anchor; negatives do not share it.
    - The same input and seed give the same tuples. The miner does not use global random generators.
    - It tracks no gradients and does not modify its inputs.

    Args:
        miner: Registered name, class or function that makes the miner, or path of your Python file. A miner
            with a parameter ``generator`` gets one.
        by_class: Set to False for a miner whose positives or negatives ignore classes on purpose, like
            ``rho_switch``.
        **options: Options of the miner.

    Example:
        >>> check_miner("semihard")
        miner semihard
          ok: tuples are valid for every batch
          ...
    """
    for plugin in find_plugins(miners.registry, miner):
        _check_plugin(plugin, options, by_class=by_class)


def _check_plugin(
    plugin: CheckedPlugin[miners.MinerCard], options: dict[str, Any], *, by_class: bool
) -> None:
    has_generator = "generator" in inspect.signature(plugin.target).parameters

    def make() -> Miner:
        extra = {"generator": torch.Generator().manual_seed(3)} if has_generator else {}
        made: Miner = plugin.target(**extra, **options)
        return made

    subject = _Miner(make, None if plugin.entry is None else plugin.entry.card.finds, by_class)
    checks: Checks[_Miner] = {
        "tuples are valid for every batch": _tuples,
        "tuples are valid for identical embeddings": _collapsed,
        "the same input and seed give the same tuples, without global randomness": _repeats,
        "bfloat16 and float64 embeddings work": _precisions,
    }
    run_checks(f"miner {plugin.name}", subject, checks)


def _tuples(subject: _Miner) -> Iterator[str]:
    for title in LABELS:
        x, labels = make_batch(title)
        before = x.detach().clone()
        found = subject.make()(x, labels)
        kind = {Pairs: "pairs", Triplets: "triplets"}.get(type(found))
        if kind is None:
            yield f"on {title} it returns {type(found).__name__}; return Pairs or Triplets"
            continue
        if subject.finds is not None and kind != subject.finds:
            yield f'on {title} it returns {kind}, but its card says finds="{subject.finds}"'
        yield from (f"on {title} {problem}" for problem in _find_problems(subject, found, labels))
        if not torch.equal(before, x):
            yield f"on {title} it changes the embeddings in place"


def _find_problems(subject: _Miner, found: MinedTuples, labels: Tensor) -> Iterator[str]:
    for name, index in zip(NAMES[type(found)], found.indices, strict=True):
        if index.dtype != torch.int64 or index.ndim != 1:
            yield f"{name} is {index.dtype} of shape {tuple(index.shape)}, not a one-dimensional int64 tensor"
            return
        if index.requires_grad:
            yield f"{name} tracks a gradient"
        if len(index) and (int(index.min()) < 0 or int(index.max()) >= len(labels)):
            yield f"{name} has row numbers outside of the batch"
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
    x, labels = make_batch("a balanced batch")
    found = subject.make()(x.detach()[:1].repeat(len(x), 1), labels)
    yield from (f"on collapsed embeddings {problem}" for problem in _find_problems(subject, found, labels))


def _repeats(subject: _Miner) -> Iterator[str]:
    x, labels = make_batch("an unbalanced batch")
    problems: list[str] = []
    with watch_global_randomness(problems):
        one, two = subject.make()(x, labels), subject.make()(x, labels)
    yield from problems
    if any(not torch.equal(a, b) for a, b in zip(one.indices, two.indices, strict=True)):
        yield "two identical miners return different tuples; draw only from the generator"


def _precisions(subject: _Miner) -> Iterator[str]:
    x, labels = make_batch("a balanced batch")
    for dtype in (torch.bfloat16, torch.float64):
        found = subject.make()(x.to(dtype), labels)
        yield from (f"in {dtype} {problem}" for problem in _find_problems(subject, found, labels))
