"""Every registered loss: options are fields, there is an oracle, and it is an ordinary module."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import typing
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
import torch
from tests.oracles import losses_classification, losses_embedding

from levelfield import losses
from levelfield.core.registry import load_plugin_file
from levelfield.losses._module import Loss
from levelfield.testing import check_loss

pytestmark = pytest.mark.slow  # experiments, end to end

NAMES = losses.registry.names()
CLASSES, SIZE = 4, 6


def make(name):
    classifies = losses.registry[name].card.kind == "classification"
    return losses.create(name, **({"num_classes": CLASSES, "embedding_size": SIZE} if classifies else {}))


def batch():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(8, SIZE, generator=generator), torch.arange(8) % CLASSES


@pytest.mark.parametrize("name", NAMES)
def test_every_loss_has_an_oracle(name):
    kind = losses.registry[name].card.kind
    oracle = getattr(losses_classification if kind == "classification" else losses_embedding, name, None)
    assert oracle is not None, f"write the slow, obvious {name} in tests/oracles"
    assert inspect.getfile(oracle).endswith(f"losses_{kind}.py")


@pytest.mark.parametrize("name", NAMES)
def test_options_are_the_fields_and_the_signature_follows(name):
    target, parameters = losses.registry[name].target, losses.registry[name].parameters
    assert is_dataclass(target) and isinstance(target, type) and issubclass(target, Loss)
    assert list(parameters) == [option.name for option in fields(target)]
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters.values())
    hints = typing.get_type_hints(target.__init__)  # used to check the types of options
    assert set(parameters) <= set(hints)
    loss = make(name)
    for option, parameter in parameters.items():
        if parameter.default is not inspect.Parameter.empty:
            assert getattr(loss, option) == parameter.default
        assert f"{option}=" in repr(loss)


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_explained(name):
    """Each field is followed by a string that explains it."""
    source = inspect.getsource(losses.registry[name].target)
    target = losses.registry[name].target
    assert is_dataclass(target) and isinstance(target, type)
    own = inspect.get_annotations(target).keys() & {option.name for option in fields(target)}
    for option in own:
        after = source.split(f"\n    {option}: ", 1)[1].split("\n")[1]
        assert after.strip().startswith('"""'), f"{name}.{option} has no explanation below it"


@pytest.mark.parametrize("name", NAMES)
def test_a_pickled_and_a_copied_loss_are_the_loss(name):
    loss, (x, labels) = make(name), batch()
    loss(x, labels)
    twins = pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss)  # before a moving average changes
    value = loss(x, labels)
    for twin in twins:
        assert torch.equal(twin(x, labels), value)
        assert repr(twin) == repr(loss)
        assert [n for n, _ in twin.named_parameters()] == [n for n, _ in loss.named_parameters()]


def test_two_losses_with_the_same_options_are_two_modules():
    one, other = make("triplet"), make("triplet")
    assert one != other
    assert len({one, other}) == 2
    assert len(list(torch.nn.ModuleList([one, other]).children())) == 2


def test_an_unknown_option_is_refused_by_the_class_itself():
    with pytest.raises(TypeError, match="margn"):
        losses.registry["triplet"].target(margn=0.1)


def test_the_loss_that_contributing_shows_keeps_the_contract(tmp_path, monkeypatch):
    monkeypatch.setattr(losses.registry, "_entries", dict(losses.registry._entries))
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    (shown,) = re.findall(r"<!-- file: mined_hinge.py -->\n```python\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "mined_hinge.py").write_text(shown)
    load_plugin_file(tmp_path / "mined_hinge.py")
    check_loss("mined_hinge")
    assert losses.create("mined_hinge", margin=0.5)(torch.eye(2), torch.tensor([0, 0])) == 1
