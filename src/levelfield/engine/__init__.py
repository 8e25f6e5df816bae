"""Where runs execute: in this process, in local processes, or on the ranks of torchrun."""

from levelfield.engine._local import Engine
from levelfield.engine._runner import Runner
from levelfield.engine._torchrun import TorchrunEngine, is_chief, started_by_torchrun

__all__ = ["Engine", "Runner", "TorchrunEngine", "is_chief", "started_by_torchrun"]
