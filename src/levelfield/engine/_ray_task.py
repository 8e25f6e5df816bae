"""Execution of a task in a process of a Ray cluster."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from importlib import metadata
from typing import Any

import torch  # noqa: F401 - a machine without torch is reported by name before it executes a task

from levelfield.core.errors import RunError
from levelfield.engine._engine import TaskResult
from levelfield.engine._execute import PROGRESS_SECONDS, pickle_result
from levelfield.engine._remote_task import (
    FileContents,
    MissingAttachmentError,
    RemoteResult,
    RemoteTask,
    execute_remote_task,
)

SAME_VERSION_PACKAGES = ("torch", "torchvision", "timm", "numpy", "optuna", "pillow")
MESSAGE_SECONDS = 10.0  # longest wait for the driver's mailbox


def execute_in_cluster(
    remote: RemoteTask,
    mailbox: Any,
    checkpoint_seconds: float,
    attachments: dict[str, list[Any]],
    versions: dict[str, str],
) -> RemoteResult:
    """Execute a task; see :func:`levelfield.engine._remote_task.execute_remote_task`.

    Args:
        remote: The task.
        mailbox: Handle of the driver's :class:`levelfield.engine._mailbox.Mailbox`.
        checkpoint_seconds: Seconds between two looks for a new state to send to the driver.
        attachments: References to the parts of the attachments that the driver has sent, by name.
        versions: Package versions of the driver.
    """
    import ray

    node = ray.get_runtime_context().get_node_id()
    machine = machine_name(platform.node(), node)

    def send_and_wait(kind: str, content: str) -> None:
        """Send a message and wait until it has arrived, because this process may die next."""
        with contextlib.suppress(Exception):
            ray.get(mailbox.put.remote(kind, remote.number, content), timeout=MESSAGE_SECONDS)

    send_and_wait("started", node)
    found = package_versions()
    different = [f"{name} {found[name]}" for name in versions if found[name] != versions[name]]
    if different:
        wanted = ", ".join(f"{name} {versions[name]}" for name in versions if found[name] != versions[name])
        problem = (
            f"machine {machine} has {', '.join(different)}, the driver {wanted}; install the same versions"
        )
        return RemoteResult(pickle_result(TaskResult(remote.number, error=RunError(problem))), {})
    last = 0.0

    def send_progress(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > PROGRESS_SECONDS:
            last = time.monotonic()
            mailbox.put.remote("progress", remote.number, (done, total))

    def send_files(contents: FileContents) -> None:
        mailbox.put.remote("files", remote.number, contents)

    def receive_parts(name: str) -> Iterator[FileContents]:
        if name not in attachments:
            raise MissingAttachmentError(name)
        for reference in attachments[name]:
            yield ray.get(reference)

    try:
        return execute_remote_task(
            remote,
            progress=send_progress,
            send_files=send_files,
            send_seconds=checkpoint_seconds,
            receive_parts=receive_parts,
            machine=machine,
        )
    except Exception as error:
        send_and_wait("fatal error", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        os._exit(1)


def machine_name(host: str, node: str) -> str:
    """Return the name of a machine in messages; the node is part of it, because tests run several per host.

    Example:
        >>> machine_name("gpu-7", "0123456789abcdef")
        'gpu-7 (01234567)'
    """
    return f"{host} ({node[:8]})"


def package_versions() -> dict[str, str]:
    """Return the versions that must be the same on all machines, because the bits of a run depend on them."""
    return {"python": platform.python_version(), **{name: _version(name) for name in SAME_VERSION_PACKAGES}}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(none)"
