"""Provenance of a record: versions, commit, machine, time. Never part of an identity."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path

from levelfield.records._models import Environment

_PACKAGES = ("levelfield", "torch", "torchvision", "timm", "numpy", "scipy", "optuna", "pillow")


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@cache
def environment() -> Environment:
    """Return the versions and the machine of this process."""
    return Environment(
        python=platform.python_version(),
        versions={name: _version(name) for name in _PACKAGES},
        commit=_commit(),
        host=platform.node(),
        platform=platform.platform(),
        processor=platform.machine(),
        cores=os.cpu_count(),
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Return the git commit of this package, with "-dirty" if files were edited; None if it is not known.

    The commit of an installed package is known if pip installed it from a repository. A repository that only
    contains the environment does not count.
    """
    directory = Path(__file__).parent
    if _git(directory, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return _installed_commit()
    return _git(directory, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def _installed_commit() -> str | None:
    try:
        text = metadata.distribution("levelfield").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    commit: str | None = json.loads(text or "{}").get("vcs_info", {}).get("commit_id")
    return commit and commit[:12]


def _git(directory: Path, *arguments: str) -> str | None:
    """Return the output of git; None without git, a repository or output."""
    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
