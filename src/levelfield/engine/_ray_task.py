"""What happens in a process of a Ray cluster: a parcel is carried out there."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from levelfield.engine._call import REPORT_EVERY, packed
from levelfield.engine._parcel import Answer, Contents, NotHereError, Parcel, open_parcel
from levelfield.engine._runner import Finished
from levelfield.errors import RunError

SAME_EVERYWHERE = ("torch", "torchvision", "timm", "numpy", "optuna", "pillow")
POST_SECONDS = 10.0  # that a task waits at most for the driver's mailbox


def carry_out_parcel(
    parcel: Parcel, mailbox: Any, every: float, sent: dict[str, list[Any]], versions: dict[str, str]
) -> Answer:
    """Carry out a task; see :func:`levelfield.engine._parcel.open_parcel`."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    here = machine_name(platform.node(), node)

    def post(kind: str, content: str) -> None:
        """Send, and wait until it is there: this process may die at once."""
        with contextlib.suppress(Exception):
            ray.get(mailbox.put.remote(kind, parcel.number, content), timeout=POST_SECONDS)

    post("began", node)
    found = versions_here()
    different = [f"{name} {found[name]}" for name in versions if found[name] != versions[name]]
    if different:
        wanted = ", ".join(f"{name} {versions[name]}" for name in versions if found[name] != versions[name])
        problem = f"machine {here} has {', '.join(different)}, the driver {wanted}; install the same versions"
        return Answer(packed(Finished(parcel.number, error=RunError(problem))), {})
    last = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > REPORT_EVERY:
            last = time.monotonic()
            mailbox.put.remote("report", parcel.number, (done, total))

    def keep(contents: Contents) -> None:
        mailbox.put.remote("files", parcel.number, contents)

    def fetch(what: str) -> Iterator[Contents]:
        if what not in sent:
            raise NotHereError(what)
        for reference in sent[what]:
            yield ray.get(reference)

    try:
        return open_parcel(parcel, tell=tell, keep=keep, every=every, fetch=fetch, machine=here)
    except Exception as error:
        post("words", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        os._exit(1)


def machine_name(host: str, node: str) -> str:
    """A machine as messages call it; several nodes of a test are on one host.

    Example:
        >>> machine_name("gpu-7", "0123456789abcdef")
        'gpu-7 (01234567)'
    """
    return f"{host} ({node[:8]})"


def versions_here() -> dict[str, str]:
    """What decides the bits of a run and can be installed: it must be the same on all machines."""
    return {"python": platform.python_version(), **{name: _version(name) for name in SAME_EVERYWHERE}}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(none)"
