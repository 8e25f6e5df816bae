"""Joining a Ray cluster, and saying in one line why that is not possible."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import levelfield
from levelfield.errors import RunError, UsageError
from levelfield.train import available_cores

REACH_SECONDS = 10.0


def import_ray() -> ModuleType:
    """The package, or how to install it."""
    # For a cluster that is started here: Ray's workers would else give way to every other process.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            "engine ray needs the package ray; install it with pip install 'levelfield[ray]', here and on "
            "the machines of the cluster"
        ) from error
    module: ModuleType = ray
    return module


@contextmanager
def connected(ray: ModuleType, address: str) -> Iterator[None]:
    """Join a cluster, or start one; the package's code goes along."""
    code = {"py_modules": [str(Path(levelfield.__file__).parent)]}
    options: dict[str, Any] = (
        {"num_cpus": available_cores(), "include_dashboard": False} if address == "local" else {}
    )
    _check_reachable(address)
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=address, runtime_env=code, log_to_driver=False, logging_level="ERROR", **options)
    except (
        ConnectionError,
        RuntimeError,
        OSError,
        ValueError,
        TimeoutError,
        ray.exceptions.RayError,
    ) as error:
        raise _refusal(address, error) from error
    _stop_at_sigterm(signal.default_int_handler)  # Ray's own handler ends the process as a plug-in might
    try:
        yield
    finally:
        ray.shutdown()
        _stop_at_sigterm(before)


def _stop_at_sigterm(handler: Any) -> None:
    """What a batch system sends when the time is over is taken as Ctrl-C is, or as before."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _check_reachable(address: str) -> None:
    """Refuse an address where nobody listens at once: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _refusal(address, error) from error


def _refusal(address: str, error: Exception) -> RunError:
    reason = " ".join(str(error).split())[:300].rstrip(". ")
    if "ersion mismatch" in reason:
        remedy = "install the same versions of Python and Ray here as in the cluster"
    else:
        remedy = "start one with `ray start --head`, or set engine.address"
    return RunError(f"cannot join the Ray cluster at {address} ({reason}); {remedy}")


@contextmanager
def one_line() -> Iterator[None]:
    """A cluster that is gone, in one line."""
    import ray

    try:
        yield
    except (ray.exceptions.RaySystemError, ConnectionError) as error:
        raise RunError(
            f"the Ray cluster cannot be reached any more ({in_words(error)}); give the same command again: "
            "finished runs and saved states are kept"
        ) from error


def near_driver(ray: ModuleType) -> dict[str, Any]:
    """Where the mailbox is put: on the driver's own machine, if that belongs to the cluster."""
    try:
        return preferring(ray.get_runtime_context().get_node_id())
    except Exception:  # a driver outside of the cluster has no node
        return {}


def preferring(node: str) -> dict[str, Any]:
    """Options of a task or actor that goes to a node, or elsewhere if that one is gone."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=True)}


def in_words(error: Exception) -> str:
    """The first sentence of what Ray says."""
    return " ".join(str(error).split()).partition(". ")[0][:300]
