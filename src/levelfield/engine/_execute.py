"""Execution of one task in the current process, and its transport to and from other processes."""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Callable
from typing import Any

from levelfield.core.errors import RunError
from levelfield.core.processes import TaskProgressCallback, ignore_progress, use_progress_callback
from levelfield.engine._engine import TaskResult

OUT_OF_MEMORY_TEXTS = ("out of memory", "allocate memory", "not enough memory")  # of PyTorch and the system
PROGRESS_SECONDS = 0.5  # between two progress reports of a task


class RemoteError(Exception):
    """Traceback of an error in another process, as text."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


def execute_task(
    number: int, function: Callable[[Any], Any], job: Any, *, progress: TaskProgressCallback = ignore_progress
) -> TaskResult:
    """Return the result of ``function(job)``; an error is returned in the result, not raised.

    Example:
        >>> execute_task(0, abs, -1).result
        1
    """
    started = time.monotonic()
    try:
        with use_progress_callback(progress):
            result = function(job)
        return TaskResult(number, result=result, seconds=time.monotonic() - started)
    except SystemExit as error:  # from a plug-in; must not end the experiment as a success
        exited = RunError(
            f"the code of a run, most likely a plug-in, called sys.exit({error.code!r}); "
            "raise an error there instead, and give the same command again"
        )
        exited.__cause__ = error
        return TaskResult(number, error=exited, seconds=time.monotonic() - started)
    except Exception as error:
        return TaskResult(number, error=error, seconds=time.monotonic() - started)


def execute_pickled_task(call: bytes, *, progress: TaskProgressCallback) -> TaskResult:
    """Execute a task from :func:`pickle_task`.

    The call is unpickled here and not by the transport. A module that this process cannot import is then an
    error of the task, with its cause, instead of the silent death of the process.
    """
    number, rest = pickle.loads(call)
    try:
        function, job = pickle.loads(rest)
    except (ImportError, AttributeError) as error:  # AttributeError: the module exists, the name does not
        return TaskResult(number, error=ImportError(f"{error}; was the code changed while this ran?"))
    return execute_task(number, function, job, progress=progress)


def is_fatal(error: BaseException | None) -> bool:
    """Return True if the process should end with this error and the task be retried in another one.

    A fresh process may have enough memory, and another process may be able to import a missing module.

    Example:
        >>> is_fatal(MemoryError()), is_fatal(ValueError("out of range")), is_fatal(None)
        (True, False, False)
    """
    if isinstance(error, MemoryError | ImportError):
        return True
    return isinstance(error, RuntimeError | OSError) and any(
        text in str(error) for text in OUT_OF_MEMORY_TEXTS
    )


def pickle_task(number: int, function: Callable[[Any], Any], job: Any) -> bytes:
    """Return the input of :func:`execute_pickled_task`; the number stays readable if the function is not."""
    return pickle.dumps((number, pickle.dumps((function, job))))


def unpickle_result(data: bytes) -> TaskResult:
    """Return the result in ``data``; the traceback of the other process becomes the cause of its error."""
    result, text = pickle.loads(data)
    assert isinstance(result, TaskResult)
    if result.error is not None and text:
        result.error.__cause__ = RemoteError(text)
    return result


def pickle_result(result: TaskResult) -> bytes:
    """Return the input of :func:`unpickle_result`; a value that cannot be pickled becomes a RunError."""
    text = "".join(traceback.format_exception(result.error)) if result.error is not None else ""
    try:
        data = pickle.dumps((result, text))
        pickle.loads(data)  # some errors can be pickled but not unpickled
        return data
    except Exception as problem:
        if result.error is not None:
            plain = RunError(f"{type(result.error).__name__}: {result.error}")
        else:
            plain = RunError(f"the result of a task cannot be sent ({type(problem).__name__}: {problem})")
        return pickle.dumps((TaskResult(result.number, error=plain, seconds=result.seconds), text))
