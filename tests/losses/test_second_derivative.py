"""A second derivative is correct or raises, never silently wrong."""

from __future__ import annotations

import pytest
import torch

from levelfield import losses
from levelfield.core.errors import UsageError


@pytest.mark.slow
@pytest.mark.parametrize("name", losses.registry.names())
def test_a_second_derivative_is_right_or_refused(name):
    classifies = losses.registry[name].card.kind == "classification"
    shape = {"num_classes": 4, "embedding_size": 5} if classifies else {}
    loss = losses.create(name, **shape).double()
    labels = torch.arange(8) % 4
    x = torch.randn(8, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()

    def slope(point):
        (gradient,) = torch.autograd.grad(loss(point, labels), point, create_graph=True)
        return gradient

    direction = torch.randn(8, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    try:
        (second,) = torch.autograd.grad((slope(x) * direction).sum(), x)
    except UsageError as error:
        assert "first derivatives only" in str(error)
        return
    step = 1e-6
    ends = [slope((x.detach() + sign * step * direction).requires_grad_()).detach() for sign in (1, -1)]
    torch.testing.assert_close(second, (ends[0] - ends[1]) / (2 * step), rtol=1e-3, atol=1e-5)
