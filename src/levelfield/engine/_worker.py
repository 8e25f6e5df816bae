"""Worker process of the local engine: the code that runs in it, and its handle in the parent.

Workers are spawned, not forked, because forking a process that has used threads is unsafe. They live for the
whole experiment, because importing torch takes seconds. They end by themselves when their parent is killed.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from levelfield.core.processes import end_with_parent
from levelfield.engine._execute import PROGRESS_SECONDS, execute_pickled_task, is_fatal, pickle_result

READY = b"ready"
PROGRESS = b"progress "
# Exit code of a worker whose import of the user's script tries to start workers again.
SCRIPT_WITHOUT_GUARD = 86
STOP_SECONDS = 10.0  # for an idle worker to end; its files are written by then


def main(connection: Connection, stderr_file: str, gpu: str | None, directory: str) -> None:
    """Execute tasks in the worker until an empty message arrives."""
    end_with_parent()
    with suppress(OSError):  # it was deleted
        os.chdir(directory)
        # Python starts processes in the directory that the first one started in, not in the present one.
        multiprocessing.process.ORIGINAL_DIR = directory  # type: ignore[attr-defined]
    _redirect_stderr(Path(stderr_file))
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    connection.send_bytes(READY)
    last = 0.0

    def send_progress(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > PROGRESS_SECONDS:
            last = time.monotonic()
            connection.send_bytes(PROGRESS + f"{done} {total}".encode())

    with suppress(EOFError, OSError):  # the parent is gone, or has closed the connection
        while call := connection.recv_bytes():
            result = execute_pickled_task(call, progress=send_progress)
            if is_fatal(result.error):
                traceback.print_exception(result.error)
                os._exit(1)
            connection.send_bytes(pickle_result(result))


def _redirect_stderr(file: Path) -> None:
    """Send standard error, and the stack of a crash, to ``file``; the parent quotes it if the worker dies."""
    with file.open("ab") as stream:
        os.dup2(stream.fileno(), 2)
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="replace")
    faulthandler.enable(file=sys.stderr)


class Worker:
    """Handle of one worker process in the parent.

    Args:
        stderr_file: Receives the standard error of the worker.
        gpu: The GPU that the worker sees; None for all of them.
    """

    def __init__(self, stderr_file: Path, gpu: str | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, child_end = context.Pipe()
        self.is_ready = False
        self._stderr_file = stderr_file
        self._shown = 0  # bytes of the file that are already on our standard error
        self._task_start = 0  # size of the file when the current task began
        directory = ""
        with suppress(OSError):
            directory = str(Path.cwd())  # relative paths of an experiment start here
        self.process = context.Process(target=main, args=(child_end, str(stderr_file), gpu, directory))
        # Ctrl-C reaches all processes of a terminal; only the parent handles it.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if os.name == "posix" else set()
        try:
            self.process.start()
        finally:
            if os.name == "posix":
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        child_end.close()

    def send(self, call: bytes) -> None:
        """Send a task; a dead worker is noticed later."""
        self._task_start = self._stderr_size()
        with suppress(OSError):
            self.connection.send_bytes(call)

    def receive_messages(self) -> list[bytes]:
        """Return the messages that have arrived since the last call."""
        messages = []
        with suppress(EOFError, OSError):
            while self.connection.poll():
                messages.append(self.connection.recv_bytes())
        return messages

    def forward_stderr(self) -> None:
        """Write the worker's new standard error to ours."""
        size = self._stderr_size()
        if size > self._shown:
            sys.stderr.write(self._read_stderr(self._shown))
            sys.stderr.flush()
            self._shown = size

    def describe_death(self) -> str:
        """Return the exit code or signal of a dead worker and the last line of its standard error."""
        self.process.join()
        code = self.process.exitcode or 0
        lines = [line.strip() for line in self._read_stderr(self._task_start).splitlines() if line.strip()]
        self._shown = self._stderr_size()
        output = f"; its last output: {_summarize_stderr(lines)}" if lines else ""
        if code < 0:
            name = signal.Signals(-code).name
            hint = ", often for lack of memory" if name == "SIGKILL" else ""
            return f"killed by {name}{hint}{output}"
        return f"it ended with code {code}{output}"

    def stop(self, *, now: bool) -> None:
        """End the worker: kill it if ``now``, else let it end by itself, and kill it if it does not."""
        with suppress(OSError):
            if now:
                self.process.kill()
            else:
                self.connection.send_bytes(b"")
        self.process.join(None if now else STOP_SECONDS)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        with suppress(OSError):
            self.connection.close()

    def _stderr_size(self) -> int:
        return self._stderr_file.stat().st_size if self._stderr_file.exists() else 0

    def _read_stderr(self, start: int) -> str:
        if not self._stderr_file.exists():
            return ""
        with self._stderr_file.open("rb") as file:
            file.seek(start)
            return file.read().decode(errors="replace")


def _summarize_stderr(lines: list[str]) -> str:
    """Return one line: the error and the code line of a crash, else the last line.

    Example:
        >>> _summarize_stderr(["Fatal Python error: Segmentation fault", "Thread 0x1 (most recent first):",
        ...                    'File "loss.py", line 3 in forward', 'File "x.py", line 1 in main'])
        'Fatal Python error: Segmentation fault, File "loss.py", line 3 in forward'
    """
    for number, line in enumerate(lines):
        if line.startswith("Fatal Python error"):
            frames = [each for each in lines[number + 1 :] if each.startswith("File ")]
            return ", ".join([line, *frames[:1]])
    return lines[-1][-300:]
