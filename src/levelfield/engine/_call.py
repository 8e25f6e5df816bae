"""Carrying out one task in the process that it has come to."""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable
from typing import Any

from levelfield.engine._runner import Finished
from levelfield.errors import RunError
from levelfield.processes import Tell, heard_by, unheard

NO_MEMORY = ("out of memory", "allocate memory", "not enough memory")  # as PyTorch and the system say it
REPORT_EVERY = 0.5  # seconds between two reports of a task


class RemoteError(Exception):
    """Where in another process an error came from, as text."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


def carry_out(number: int, function: Callable[[Any], Any], job: Any, *, tell: Tell = unheard) -> Finished:
    """Call ``function(job)``; an error is part of what comes of it, not raised.

    Example:
        >>> carry_out(0, abs, -1).result
        1
    """
    started = time.monotonic()
    try:
        with heard_by(tell):
            result = function(job)
        return Finished(number, result=result, seconds=time.monotonic() - started)
    except SystemExit as error:  # from a plug-in: it must not end the experiment as if all were well
        refused = RunError(
            f"the code of a run, most likely a plug-in, called sys.exit({error.code!r}); "
            "let it raise an error instead, and give the same command again"
        )
        refused.__cause__ = error
        return Finished(number, error=refused, seconds=time.monotonic() - started)
    except Exception as error:
        return Finished(number, error=error, seconds=time.monotonic() - started)


def carry_out_pickled(call: bytes, *, tell: Tell) -> Finished:
    """Carry out what :func:`packed_call` made.

    Unpickled here and not by the transport: a module that this process cannot import is then an error of the
    task, with its cause, and not the silent death of the process.
    """
    number, rest = pickle.loads(call)
    try:
        function, job = pickle.loads(rest)
    except (ImportError, AttributeError) as error:  # the second: the module is there, what it had is not
        return Finished(number, error=ImportError(f"{error}; was the code changed while this ran?"))
    return carry_out(number, function, job, tell=tell)


def is_fatal(error: BaseException | None) -> bool:
    """Whether a process should end with this error, and its task be tried in another.

    Of memory that ran out a fresh process may have enough, and what one process cannot import another can.

    Example:
        >>> is_fatal(MemoryError()), is_fatal(ValueError("out of range")), is_fatal(None)
        (True, False, False)
    """
    if isinstance(error, MemoryError | ImportError):
        return True
    return isinstance(error, RuntimeError | OSError) and any(sign in str(error) for sign in NO_MEMORY)


def packed_call(number: int, function: Callable[[Any], Any], job: Any) -> bytes:
    """What :func:`carry_out_pickled` takes; the number can be read where the function cannot."""
    return pickle.dumps((number, pickle.dumps((function, job))))


def unpacked(answer: bytes) -> Finished:
    """What came of a task elsewhere; its error says where it came from."""
    finished, text = pickle.loads(answer)
    assert isinstance(finished, Finished)
    if finished.error is not None and text:
        finished.error.__cause__ = RemoteError(text)
    return finished


def packed(done: Finished) -> bytes:
    """What :func:`unpacked` takes, whatever the result or the error is made of."""
    text = "".join(traceback.format_exception(done.error)) if done.error is not None else ""
    try:
        answer = pickle.dumps((done, text))
        pickle.loads(answer)  # some errors can be written but not read
        return answer
    except Exception as problem:
        if done.error is not None:
            plain = RunError(f"{type(done.error).__name__}: {done.error}")
        else:
            plain = RunError(f"the result of a task cannot be sent ({type(problem).__name__}: {problem})")
        return pickle.dumps((Finished(done.number, error=plain, seconds=done.seconds), text))
