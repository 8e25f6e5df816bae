"""Processes that start warm: forked from a server that has imported torch and levelfield.

A Python process needs about 3 s to import what ``levelfield run`` uses; these need a few milliseconds.
They are otherwise what ``subprocess`` starts: each has a process, an environment and a directory of its own,
and can be killed. The server itself never computes and has one thread, so forking it is safe.
"""

from __future__ import annotations

import atexit
import importlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any
from unittest import mock

_CONTEXT = multiprocessing.get_context("forkserver")
# A server of our own: the one of the module belongs to the loaders of levelfield, which import less.
_SERVER = forkserver.ForkServer()
_SERVER.set_forkserver_preload(["tests.helpers.warm_imports"])


class WarmProcess:
    """Handle of a process; its methods are those of :class:`subprocess.Popen`.

    Args:
        command: As after ``python``: ``-m MODULE``, ``-c CODE`` or a file, and arguments.
        stdout: File that receives the standard output; None discards it.
        stderr: The same for the standard error.
        cwd: Directory of the process.
        env: Its environment.
        new_session: Give it a process group of its own.
        forget: Packages that it imports anew, because they read the environment when they are imported.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        stdout: IO[Any] | int | None = None,
        stderr: IO[Any] | int | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        new_session: bool = False,
        forget: Sequence[str] = (),
    ) -> None:
        outputs = [_connection(each) for each in (stdout, stderr)]
        settings = dict(os.environ if env is None else env)
        directory = str(Path.cwd() if cwd is None else cwd)
        arguments = (list(command), outputs, directory, settings, new_session, list(forget))
        self._process = _CONTEXT.Process(target=_main, args=arguments)
        with mock.patch.object(forkserver, "connect_to_new_process", _SERVER.connect_to_new_process):
            self._process.start()
        for output in outputs:
            output.close()

    @property
    def pid(self) -> int:
        """Identifier of the process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, or the negative number of a signal; None while the process runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for the end and return the exit code; None if the process still runs after ``timeout``."""
        self._process.join(timeout)
        return self._process.exitcode

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()


def start_levelfield(arguments: Sequence[str], **options: Any) -> WarmProcess:
    """Start ``python -m levelfield ARGUMENTS``."""
    return WarmProcess(["-m", "levelfield", *arguments], **options)


def run_warm(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``python COMMAND``, where COMMAND begins with ``-m MODULE``, ``-c CODE`` or a file, to its end."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        code = WarmProcess(command, stdout=stdout, stderr=stderr, **options).wait()
        assert code is not None
        texts = []
        for stream in (stdout, stderr):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    return subprocess.CompletedProcess(list(command), code, *texts)


def run_levelfield(arguments: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``python -m levelfield ARGUMENTS`` to its end."""
    return run_warm(["-m", "levelfield", *arguments], **options)


def _connection(stream: IO[Any] | int | None) -> Connection:
    """Return a connection, which can be sent to another process, to a file or to nowhere."""
    if stream is None:
        return Connection(os.open(os.devnull, os.O_WRONLY), readable=False)
    return Connection(os.dup(stream if isinstance(stream, int) else stream.fileno()), readable=False)


def _main(  # noqa: PLR0917 - a process has no keyword arguments
    command: list[str],
    outputs: list[Connection],
    directory: str,
    settings: dict[str, str],
    new_session: bool,
    forget: list[str],
) -> None:
    """Become ``python COMMAND`` in the new process."""
    atexit._clear()
    if new_session:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for output, target in zip(outputs, (1, 2), strict=True):
        os.dup2(output.fileno(), target)
        output.close()
    sys.stdout, sys.stderr = (os.fdopen(fd, "w", buffering=1, closefd=False) for fd in (1, 2))
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(settings)
    for name in [name for name in sys.modules if name.split(".")[0] in forget]:
        del sys.modules[name]
    importlib.invalidate_caches()
    try:
        _execute(command)
    finally:
        atexit._run_exitfuncs()


def _execute(command: list[str]) -> None:
    if command[0] == "-m":
        sys.argv = command[1:]
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - as Python does it
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    elif command[0] == "-c":
        sys.argv = ["-c", *command[2:]]
        sys.path.insert(0, "")
        exec(compile(command[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = list(command)
        sys.path.insert(0, str(Path(command[0]).resolve().parent))
        runpy.run_path(command[0], run_name="__main__")
