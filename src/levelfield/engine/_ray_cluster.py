"""Connect to a Ray cluster, with one-line errors."""

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
from levelfield.core.devices import available_cores
from levelfield.core.errors import RunError, UsageError

CONNECT_SECONDS = 10.0


def import_ray() -> ModuleType:
    """Return the module ``ray``; raise UsageError with the install command if it is missing."""
    # For a cluster that is started here: Ray would give its workers a low priority.
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
    """Connect to a cluster, or start one; the code of this package is sent to it."""
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
        raise _connection_error(address, error) from error
    _set_sigterm_handler(signal.default_int_handler)  # Ray's own handler calls sys.exit
    try:
        yield
    finally:
        ray.shutdown()
        _set_sigterm_handler(before)


def _set_sigterm_handler(handler: Any) -> None:
    """Set the handler of SIGTERM, which batch systems send at the time limit; in the main thread only."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _check_reachable(address: str) -> None:
    """Raise RunError at once if no server answers at ``address``; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise _connection_error(address, error) from error


def _connection_error(address: str, error: Exception) -> RunError:
    reason = " ".join(str(error).split())[:300].rstrip(". ")
    if "ersion mismatch" in reason:
        remedy = "install the same versions of Python and Ray here as in the cluster"
    else:
        remedy = "start one with `ray start --head`, or set engine.address"
    return RunError(f"cannot join the Ray cluster at {address} ({reason}); {remedy}")


@contextmanager
def connection_errors() -> Iterator[None]:
    """Turn the loss of the cluster into a one-line RunError."""
    import ray

    try:
        yield
    except (ray.exceptions.RaySystemError, ConnectionError) as error:
        raise RunError(
            f"the Ray cluster cannot be reached any more ({first_sentence(error)}); give the same command "
            "again: finished runs and saved states are kept"
        ) from error


def prefer_driver_node(ray: ModuleType) -> dict[str, Any]:
    """Return the options of an actor that runs on the driver's machine, if that is part of the cluster."""
    try:
        return prefer_node(ray.get_runtime_context().get_node_id())
    except Exception:  # a driver outside the cluster has no node
        return {}


def prefer_node(node: str) -> dict[str, Any]:
    """Return the options of a task or actor that runs on a node, or elsewhere if the node is gone."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=True)}


def first_sentence(error: Exception) -> str:
    """Return the first sentence of an error's message."""
    return " ".join(str(error).split()).partition(". ")[0][:300]
