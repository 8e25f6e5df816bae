"""A worker process of the local engine, seen from both sides.

Workers are spawned, not forked (forking a process that has used threads is unsafe), live for the whole
experiment (importing torch takes seconds), and end by themselves when their parent is killed.
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

from levelfield.engine._call import REPORT_EVERY, carry_out_pickled, is_fatal, packed
from levelfield.processes import end_with_parent

READY = b"ready"
REPORT = b"report "
# What a worker ends with when the user's script, imported by the worker, wants to start workers itself.
SCRIPT_WITHOUT_GUARD = 86


def main(connection: Connection, words: str, gpu: str | None) -> None:
    """In the worker: carry out what comes, until nothing more comes."""
    end_with_parent()
    _speak_into(Path(words))
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    connection.send_bytes(READY)
    last = 0.0

    def tell(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last > REPORT_EVERY:
            last = time.monotonic()
            connection.send_bytes(REPORT + f"{done} {total}".encode())

    with suppress(EOFError, OSError):  # the parent is gone, or does not want us any more
        while call := connection.recv_bytes():
            done = carry_out_pickled(call, tell=tell)
            if is_fatal(done.error):
                traceback.print_exception(done.error)
                os._exit(1)
            connection.send_bytes(packed(done))


def _speak_into(words: Path) -> None:
    """Send standard error, and the stack of a crash, to a file: the last words of a process that dies."""
    with words.open("ab") as file:
        os.dup2(file.fileno(), 2)
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="replace")
    faulthandler.enable(file=sys.stderr)


class Worker:
    """One worker, seen from the parent."""

    def __init__(self, words: Path, gpu: str | None) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.is_ready = False
        self._words, self._heard, self._from = words, 0, 0
        self.process = context.Process(target=main, args=(theirs, str(words), gpu))
        # Ctrl-C goes to all processes of a terminal; what is done about it, the parent decides.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if os.name == "posix" else set()
        try:
            self.process.start()
        finally:
            if os.name == "posix":
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()

    def send(self, call: bytes) -> None:
        """Give it something to do; that it is gone is noticed later."""
        self._from = self._size()
        with suppress(OSError):
            self.connection.send_bytes(call)

    def messages(self) -> list[bytes]:
        """What it has sent since."""
        found = []
        with suppress(EOFError, OSError):
            while self.connection.poll():
                found.append(self.connection.recv_bytes())
        return found

    def pass_on(self) -> None:
        """Show on our standard error what the worker has said there since."""
        size = self._size()
        if size > self._heard:
            sys.stderr.write(self._read(self._heard))
            sys.stderr.flush()
            self._heard = size

    def how_it_died(self) -> str:
        """In a few words: the exit code, or the signal, and the last words since its task began."""
        self.process.join()
        code = self.process.exitcode or 0
        lines = [line.strip() for line in self._read(self._from).splitlines() if line.strip()]
        self._heard = self._size()
        said = f"; its last words: {_essence(lines)}" if lines else ""
        if code < 0:
            name = signal.Signals(-code).name
            hint = ", as a lack of memory does" if name == "SIGKILL" else ""
            return f"killed by {name}{hint}{said}"
        return f"it ended with code {code}{said}"

    def end(self, *, now: bool) -> None:
        """Let it end: ``now``, or when it has read that nothing more comes."""
        with suppress(OSError):
            if now:
                self.process.kill()
            else:
                self.connection.send_bytes(b"")
        self.process.join()
        with suppress(OSError):
            self.connection.close()

    def _size(self) -> int:
        return self._words.stat().st_size if self._words.exists() else 0

    def _read(self, start: int) -> str:
        if not self._words.exists():
            return ""
        with self._words.open("rb") as file:
            file.seek(start)
            return file.read().decode(errors="replace")


def _essence(lines: list[str]) -> str:
    """One line of what a process said before it died: of a crash, what and where; else what came last.

    Example:
        >>> _essence(["Fatal Python error: Segmentation fault", "Thread 0x1 (most recent call first):",
        ...           'File "loss.py", line 3 in forward', 'File "x.py", line 1 in main'])
        'Fatal Python error: Segmentation fault, File "loss.py", line 3 in forward'
    """
    for number, line in enumerate(lines):
        if line.startswith("Fatal Python error"):
            where = [each for each in lines[number + 1 :] if each.startswith("File ")]
            return ", ".join([line, *where[:1]])
    return lines[-1][-300:]
