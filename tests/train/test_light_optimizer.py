"""Optimizers without PyTorch's compiler: nothing imports it, and every step has the same bits."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

import pytest
import torch

from levelfield.train._light_optimizer import MARK, step_without_hooks, unmarked_methods

KINDS: dict[str, Any] = {
    "adam": lambda groups: torch.optim.Adam(groups, lr=0.1, fused=True),
    "adamw": lambda groups: torch.optim.AdamW(groups, lr=0.1, fused=True),
    "rmsprop": lambda groups: torch.optim.RMSprop(groups, lr=0.1, momentum=0.5),
    "sgd": lambda groups: torch.optim.SGD(groups, lr=0.1, momentum=0.9, fused=True),
}


class Refuse(MetaPathFinder):
    """Finder that fails the test when the compiler is imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "torch._dynamo":
            pytest.fail("the compiler is imported")


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A fresh process: the compiler is not loaded, no method is marked, and an import of it fails."""
    for name in [name for name in sys.modules if name.split(".")[:2] == ["torch", "_dynamo"]]:
        monkeypatch.delitem(sys.modules, name)
    for method in vars(torch.optim.Optimizer).values():
        if hasattr(plain := getattr(method, "__wrapped__", None), MARK):
            monkeypatch.delattr(plain, MARK)
    monkeypatch.setattr(sys, "meta_path", [Refuse(), *sys.meta_path])
    yield


def parameters() -> list[torch.nn.Parameter]:
    made = torch.nn.Linear(5, 3)
    for parameter in made.parameters():
        parameter.data = torch.linspace(-1, 1, parameter.numel()).view_as(parameter)
    return list(made.parameters())


def give_gradients(given: list[torch.nn.Parameter], step: int) -> None:
    for parameter in given:
        parameter.grad = torch.sin(parameter.detach() * (step + 1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("no_compiler")
def test_building_saving_and_stepping_do_not_import_the_compiler(kind: str) -> None:
    with unmarked_methods():
        optimizer = KINDS[kind](parameters())
        again = KINDS[kind](parameters())
    give_gradients(optimizer.param_groups[0]["params"], 0)
    step_without_hooks(optimizer)
    with unmarked_methods():
        again.load_state_dict(optimizer.state_dict())
    marked = [getattr(each, "__wrapped__", None) for each in vars(torch.optim.Optimizer).values()]
    assert not any(hasattr(each, MARK) for each in marked), "a mark is left behind"


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_has_the_bits_of_an_ordinary_step(kind: str) -> None:
    ours, theirs = parameters(), parameters()
    optimizers = KINDS[kind](ours), KINDS[kind](theirs)
    for number in range(4):
        for given in (ours, theirs):
            give_gradients(given, number)
        step_without_hooks(optimizers[0])
        optimizers[1].step()
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))
    assert all(parameter.requires_grad and parameter.grad is not None for parameter in ours)
