"""Where runs execute: this process, local processes, the ranks of torchrun, or what a plug-in brings."""

from levelfield.engine._runner import (
    Finished,
    LostTaskError,
    Report,
    Runner,
    Task,
    check,
    create,
    register,
    registry,
    run_all,
)

# isort: split
from levelfield.engine._call import carry_out
from levelfield.engine._inline import ThisProcess
from levelfield.engine._local import LocalEngine
from levelfield.engine._machine import device_of, workers_of
from levelfield.engine._torchrun import TorchrunEngine, is_chief, started_by_torchrun
from levelfield.processes import report

__all__ = [
    "Finished",
    "LocalEngine",
    "LostTaskError",
    "Report",
    "Runner",
    "Task",
    "ThisProcess",
    "TorchrunEngine",
    "carry_out",
    "check",
    "create",
    "device_of",
    "is_chief",
    "register",
    "registry",
    "report",
    "run_all",
    "started_by_torchrun",
    "workers_of",
]
