"""Parts with the same trunk store it once and run it once; the vectors keep their bits."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.retrieval.embedders.conftest import SHAPE, trained
from torch.nn import functional as F

import levelfield as lf
from levelfield.core.errors import UsageError
from levelfield.models import Embedder
from levelfield.retrieval.embedders import Preprocessing, read_model_card, write_model
from levelfield.retrieval.embedders._model_directory import _build_embedder


def with_other_heads(count: int = 3) -> list[Embedder]:
    """Return networks with equal trunks, each a copy of its own, and different heads."""
    first = trained()
    assert isinstance(first, Embedder)
    parts = [copy.deepcopy(first) for _ in range(count)]
    for number, part in enumerate(parts):
        with torch.no_grad():
            for value in part.head.parameters():
                value.add_(torch.randn(value.shape, generator=torch.Generator().manual_seed(number)))
    return [part.eval() for part in parts]


def noise(count: int = 5) -> torch.Tensor:
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("flip", [False, True])
def test_a_shared_trunk_is_stored_once_runs_once_and_changes_no_bit(tmp_path: Path, flip: bool) -> None:
    parts = with_other_heads()
    seen = Preprocessing(size=(32, 32), flip=flip)
    write_model(tmp_path, parts, architecture=SHAPE, preprocessing=seen)
    names = list(load_file(tmp_path / "weights.safetensors"))
    assert all(("trunk." in name) == name.startswith("shared.") for name in names if "head." not in name)
    loaded = lf.load_embedder(tmp_path)
    trunk = loaded.parts[0].get_submodule("trunk")
    assert all(part.trunk is trunk for part in loaded.parts)
    calls: list[int] = []
    trunk.register_forward_hook(lambda *_: calls.append(1))
    views = [noise(), noise().flip(-1)] if flip else [noise()]
    with torch.inference_mode():
        got = loaded(noise())
        wanted = []
        for part in parts:
            total = F.normalize(part(views[0]), dim=1)
            for view in views[1:]:
                total = total + F.normalize(part(view), dim=1)
            wanted.append(F.normalize(total, dim=1))
    assert len(calls) == len(views)
    assert torch.equal(got, F.normalize(torch.cat(wanted, 1), dim=1))
    pixels = (noise() * 255).to(torch.uint8)
    torch.testing.assert_close(loaded.embed_batch(pixels), loaded(pixels), atol=1e-4, rtol=0)


def test_a_directory_that_stores_every_trunk_has_the_same_vectors(tmp_path: Path) -> None:
    parts = with_other_heads()
    card = write_model(tmp_path, parts, architecture=SHAPE, preprocessing=Preprocessing(size=(32, 32)))
    every = {f"parts.{n}.{key}": v for n, part in enumerate(parts) for key, v in part.state_dict().items()}
    old = _build_embedder(card, every)
    assert old.parts[1].trunk is old.parts[0].trunk
    with torch.inference_mode():
        assert torch.equal(old(noise()), lf.load_embedder(tmp_path)(noise()))


def test_different_trunks_stay_different_and_share_only_equal_tensors(tmp_path: Path) -> None:
    parts = with_other_heads(2)
    name, changed = next(iter(parts[1].trunk.named_parameters()))
    with torch.no_grad():
        changed.add_(0.25)
    write_model(tmp_path, parts, architecture=SHAPE, preprocessing=Preprocessing(size=(32, 32)))
    names = list(load_file(tmp_path / "weights.safetensors"))
    assert [f"parts.{number}.trunk.{name}" in names for number in (0, 1)] == [True, True]
    assert sum(each.startswith("shared.trunk.") for each in names) == len(parts[0].trunk.state_dict()) - 1
    loaded = lf.load_embedder(tmp_path)
    assert loaded.parts[0].trunk is not loaded.parts[1].trunk
    with torch.inference_mode():
        views = [F.normalize(part(noise()), dim=1) for part in parts]
        # The sum of the views, here of one, is normalized again.
        wanted = F.normalize(torch.cat([F.normalize(view, dim=1) for view in views], 1), dim=1)
        torch.testing.assert_close(loaded(noise()), wanted, atol=1e-6, rtol=0)


def test_shared_tensors_cannot_be_copied_into_unbounded_networks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = with_other_heads(4)
    for number, part in enumerate(parts):
        with torch.no_grad():
            next(part.trunk.parameters()).add_(0.1 * number)
    write_model(tmp_path, parts, architecture=SHAPE, preprocessing=Preprocessing(size=(32, 32)))
    monkeypatch.setattr("levelfield.retrieval.embedders._model_directory.SPARE_ELEMENTS", 0)
    monkeypatch.setattr("levelfield.retrieval.embedders._model_directory.MAX_COPIES", 1)
    with pytest.raises(UsageError, match="times the memory of the weights"):
        lf.load_embedder(tmp_path)


@pytest.mark.slow
def test_the_onnx_file_holds_one_trunk(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    from levelfield.retrieval.embedders.onnx import export_onnx

    counts = []
    for number, parts in enumerate((with_other_heads(1), with_other_heads(3))):
        where = tmp_path / str(number)
        write_model(where, parts, architecture=SHAPE, preprocessing=Preprocessing(size=(32, 32)))
        assert read_model_card(where).parts == len(parts)
        assert export_onnx(lf.load_embedder(where), where / "model.onnx") <= 1e-4
        graph = onnx.load(str(where / "model.onnx")).graph
        counts.append(sum(node.op_type == "Conv" for node in graph.node))
    assert counts[0] == counts[1] > 0
