"""Quick extraction gives the features of the plain loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from levelfield import models
from levelfield.data import Rows
from levelfield.models.extraction import FeatureExtractor

IMAGES = torch.randint(0, 256, (11, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def load(rows: Rows) -> Tensor:
    return IMAGES[torch.as_tensor(rows)]


def embedder(name: str = "timm:test_efficientnet", pooling: str = "avg") -> models.Embedder:
    return models.create_embedder(trunk=models.create_trunk(name), pooling=pooling)


@pytest.mark.parametrize(
    ("name", "pooling"), [("timm:test_efficientnet", "gem"), ("conv4", "avg+max"), ("bninception", "avg")]
)
def test_same_features_as_the_plain_loop(name: str, pooling: str) -> None:
    model = embedder(name, pooling)
    quick = FeatureExtractor(model, threads=2).features(np.arange(11), load)
    with torch.inference_mode():
        plain = model.eval().features(IMAGES)
    assert torch.allclose(quick, plain, atol=1e-4)


def test_rows_come_in_the_order_asked_for() -> None:
    extractor = FeatureExtractor(embedder("conv4"))
    rows = np.array([7, 0, 7, 10, 3])
    assert torch.allclose(extractor.features(rows, load), extractor.features(np.arange(11), load)[rows])


def test_features_do_not_depend_on_the_number_of_threads() -> None:
    model = embedder()
    one, three = (
        FeatureExtractor(model, threads=threads).features(np.arange(11), load) for threads in (1, 3)
    )
    assert torch.equal(one, three)


def test_threads_of_pytorch_are_given_back() -> None:
    before = torch.get_num_threads()
    FeatureExtractor(embedder("conv4"), threads=2).features(np.arange(11), load)
    assert torch.get_num_threads() == before


def test_an_image_that_cannot_be_read_stops_the_extraction() -> None:
    def broken(rows: Rows) -> Tensor:
        if 9 in rows:
            raise ValueError("row 9 is broken")
        return load(rows)

    with pytest.raises(ValueError, match="row 9 is broken"):
        FeatureExtractor(embedder("conv4"), threads=2).features(np.arange(11), broken)


def test_the_extractor_has_weights_of_its_own() -> None:
    model = embedder("conv4")
    extractor = FeatureExtractor(model)
    before = extractor.features(np.arange(4), load)
    for parameter in model.parameters():
        parameter.data.zero_()
    assert torch.equal(extractor.features(np.arange(4), load), before)
