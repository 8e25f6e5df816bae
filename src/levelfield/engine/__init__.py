"""Where runs execute: this process, local processes, the ranks of torchrun, or what a plug-in brings."""

from levelfield.engine._runner import Runner, check, create, register, registry

# isort: split
from levelfield.engine._local import Engine
from levelfield.engine._torchrun import TorchrunEngine, is_chief, started_by_torchrun

__all__ = [
    "Engine",
    "Runner",
    "TorchrunEngine",
    "check",
    "create",
    "is_chief",
    "register",
    "registry",
    "started_by_torchrun",
]
