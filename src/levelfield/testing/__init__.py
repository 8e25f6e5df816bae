"""Contract checks for plug-ins: losses, miners, samplers, datasets, trunks and metrics.

Each function takes a registered name, the class or function, or the path of your Python file. It prints one
line per check, and raises one AssertionError that lists all problems::

    from levelfield.testing import check_loss

    def test_my_loss():
        check_loss("my_loss.py")
"""

from __future__ import annotations

from levelfield.testing._card import check_card
from levelfield.testing._dataset import check_dataset
from levelfield.testing._loss import check_loss
from levelfield.testing._metric import check_metric
from levelfield.testing._miner import check_miner
from levelfield.testing._sampler import check_sampler
from levelfield.testing._trunk import check_trunk

__all__ = [
    "check_card",
    "check_dataset",
    "check_loss",
    "check_metric",
    "check_miner",
    "check_sampler",
    "check_trunk",
]
