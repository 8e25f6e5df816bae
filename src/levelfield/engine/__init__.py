"""Engines: execute tasks in this process, in local processes, under torchrun, or where a plug-in says."""

from levelfield.engine._engine import (
    Engine,
    FetchAttachment,
    LostTaskError,
    PortableJob,
    ProgressReport,
    Task,
    TaskResult,
    check_engine,
    create,
    register,
    registry,
    run_tasks,
)

# isort: split
from levelfield.core.processes import report_progress
from levelfield.engine._execute import execute_task
from levelfield.engine._inline import InlineEngine
from levelfield.engine._local import LocalEngine
from levelfield.engine._machine import worker_count, worker_device
from levelfield.engine._torchrun import TorchrunEngine, is_rank_zero, started_by_torchrun

__all__ = [
    "Engine",
    "FetchAttachment",
    "InlineEngine",
    "LocalEngine",
    "LostTaskError",
    "PortableJob",
    "ProgressReport",
    "Task",
    "TaskResult",
    "TorchrunEngine",
    "check_engine",
    "create",
    "execute_task",
    "is_rank_zero",
    "register",
    "registry",
    "report_progress",
    "run_tasks",
    "started_by_torchrun",
    "worker_count",
    "worker_device",
]
