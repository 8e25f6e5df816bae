"""Tasks for machines that share no files with the driver.

The files that a task reads are sent with it. The files that it writes are sent back, and the driver writes
them. Plug-ins are sent as source code. Attachments, such as a dataset or a weights file, are sent only to a
machine that lacks them: the task asks for them by an error, and the driver sends them once.
"""

from __future__ import annotations

import dataclasses
import pickle
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from levelfield.core import files
from levelfield.core.errors import LevelfieldError, RunError
from levelfield.core.processes import TaskProgressCallback
from levelfield.core.sources import read_plugin_files
from levelfield.engine._engine import PortableJob, Task, TaskResult
from levelfield.engine._execute import execute_task, is_fatal, pickle_result

FileContents = dict[str, bytes]  # by path
ReceiveParts = Callable[[str], Iterator[FileContents]]  # the parts of an attachment, from the driver
PLUGIN_FILE = "."  # name of the plug-in's own file among its modules
NOT_SENT = (".lock",)


class MissingAttachmentError(RunError):
    """Request of a machine for an attachment that it lacks; the message is the name of the attachment."""


@dataclasses.dataclass(frozen=True)
class RemoteTask:
    """Task with the files that it needs on another machine.

    Attributes:
        number: Number of the task.
        call: The pickled function and job.
        reads: Contents of the files that it reads, by path on the driver.
        writes: Paths of the files and directories that it writes, on the driver.
        plugins: Sources of the plug-ins by digest; the plug-in's own file is called ``PLUGIN_FILE``.
    """

    number: int
    call: bytes
    reads: FileContents
    writes: tuple[str, ...]
    plugins: Mapping[str, FileContents]


@dataclasses.dataclass(frozen=True)
class RemoteResult:
    """Pickled :class:`TaskResult`, and contents of the written files by path on the driver."""

    result: bytes
    contents: FileContents


def pack_task(task: Task) -> RemoteTask:
    """Return a task with the contents of its files."""
    plugins = task.job.plugin_files() if isinstance(task.job, PortableJob) else {}
    return RemoteTask(
        number=task.number,
        call=pickle.dumps((task.function, task.job)),
        reads={str(file): file.read_bytes() for path in task.reads for file in _complete_files(path)},
        writes=tuple(str(path) for path in task.writes),
        plugins={digest: read_plugin_files(path) for digest, path in plugins.items()},
    )


def execute_remote_task(
    remote: RemoteTask,
    *,
    progress: TaskProgressCallback,
    send_files: Callable[[FileContents], None],
    send_seconds: float,
    receive_parts: ReceiveParts,
    machine: str = "",
) -> RemoteResult:
    """Execute a task on another machine than the driver.

    Args:
        remote: From :func:`pack_task`.
        progress: Receives the progress of the task.
        send_files: Receives the files written so far, each time the task has saved its state.
        send_seconds: Seconds between two looks for a new state.
        receive_parts: Returns the parts of an attachment.
        machine: Name of this machine, for error messages.

    Raises:
        Exception: An error that the process should end with; see :func:`levelfield.engine._execute.is_fatal`.
    """
    with tempfile.TemporaryDirectory(prefix="levelfield-task-") as name:
        scratch = Path(name)
        try:
            for path, data in remote.reads.items():
                files.write_bytes(_scratch_path(scratch, path), data)
            for path in remote.writes:
                _scratch_path(scratch, path).parent.mkdir(parents=True, exist_ok=True)
            function, job = pickle.loads(remote.call)
            job = rebase_paths(job, scratch, (*remote.reads, *remote.writes))
            if isinstance(job, PortableJob):
                job = _localize(job, remote, receive_parts)
        except Exception as error:
            if is_fatal(error):
                raise
            return RemoteResult(
                pickle_result(_name_machine(machine, TaskResult(remote.number, error=error))), {}
            )
        checkpoint = job.checkpoint_file if isinstance(job, PortableJob) else ""
        with _sending_checkpoints(scratch, remote.writes, checkpoint, send_files, send_seconds):
            result = execute_task(remote.number, function, job, progress=progress)
        if result.error is not None and is_fatal(result.error):
            raise result.error
        return RemoteResult(
            pickle_result(_name_machine(machine, result)), _written_files(scratch, remote.writes)
        )


def _name_machine(machine: str, result: TaskResult) -> TaskResult:
    """Return the result with the machine's name in the message of a levelfield error."""
    error = result.error
    if not machine or not isinstance(error, LevelfieldError) or isinstance(error, MissingAttachmentError):
        return result
    named = type(error)(f"on machine {machine}: {error}")
    return dataclasses.replace(result, error=named.with_traceback(error.__traceback__))


def write_returned_files(
    contents: FileContents, *, writes: Sequence[Path], result_file: str = "", is_complete: bool
) -> None:
    """Write the files of a task on the driver, each atomically.

    Args:
        contents: Contents of the files by path.
        writes: Files and directories that the task writes. If ``is_complete``, other files there are deleted.
        result_file: Name of the file that marks the task as finished; it is written last.
        is_complete: True for all files of a finished task, False for those of a running one.
    """

    def order(path: str) -> tuple[bool, bool, str]:
        return Path(path).name == result_file, path.endswith(".json"), path

    for written in writes:
        if written.parent.name == "runs":
            files.require_directory(written.parent)
    for path in sorted(contents, key=order):
        files.write_bytes(Path(path), contents[path])
    if is_complete:
        for directory in (path for path in writes if path.is_dir()):
            for file in _complete_files(directory):
                if str(file) not in contents:
                    file.unlink()


def rebase_paths(value: Any, scratch: Path, paths: Sequence[str]) -> Any:
    """Return ``value`` with every path that is one of ``paths``, or lies in one, moved below ``scratch``.

    Example:
        >>> rebase_paths((Path("/a/b"), Path("/c")), Path("/s"), ["/a"])
        (PosixPath('/s/a/b'), PosixPath('/c'))
    """
    if isinstance(value, Path):
        inside = any(value.is_relative_to(path) for path in paths)
        return _scratch_path(scratch, str(value)) if inside else value
    if isinstance(value, tuple):
        return tuple(rebase_paths(item, scratch, paths) for item in value)
    if isinstance(value, dict):
        return {name: rebase_paths(item, scratch, paths) for name, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {
            field.name: rebase_paths(getattr(value, field.name), scratch, paths)
            for field in dataclasses.fields(value)
            if field.init
        }
        return dataclasses.replace(value, **changes)
    return value


def attachment_parts(path: Path, *, part_bytes: int = 64 * 2**20) -> Iterator[FileContents]:
    """Yield a file, or the files of a directory by relative path, in parts of about ``part_bytes``."""
    if path.is_file():
        yield {path.name: path.read_bytes()}
        return
    part: FileContents = {}
    size = 0
    for file in sorted(path.rglob("*")):
        if file.is_file():
            part[str(file.relative_to(path))] = data = file.read_bytes()
            size += len(data)
            if size >= part_bytes:
                yield part
                part, size = {}, 0
    yield part


def _localize(job: PortableJob, remote: RemoteTask, receive_parts: ReceiveParts) -> PortableJob:
    """Return the job with plug-ins and attachments of this machine."""
    plugins = {
        digest: _write_plugin(digest, path.name, remote.plugins[digest])
        for digest, path in job.plugin_files().items()
    }

    def fetch(name: str, directory: Path) -> Path:
        """Fill ``directory`` from the driver if it does not exist; it is complete or absent."""
        with files.lock(directory.with_name(f".{directory.name}.lock")):
            if not directory.exists():
                incomplete = directory.with_name(f".{directory.name}.part")
                for part in receive_parts(name):
                    for file, data in part.items():
                        files.write_bytes(incomplete / file, data)
                incomplete.replace(directory)
        return directory

    return job.localize(plugins, fetch)


def _write_plugin(digest: str, name: str, texts: FileContents) -> Path:
    """Return the plug-in's file in this machine's cache, with the modules that it imports beside it."""
    directory = files.cache_directory() / "plugins" / digest
    file = directory / name
    if not file.exists():
        for module, text in texts.items():
            if module != PLUGIN_FILE:
                files.write_bytes(directory / module, text)
        files.write_bytes(file, texts[PLUGIN_FILE])
    return file


@contextmanager
def _sending_checkpoints(
    scratch: Path,
    writes: Sequence[str],
    checkpoint_file: str,
    send_files: Callable[[FileContents], None],
    seconds: float,
) -> Iterator[None]:
    """Send the written files to the driver each time that the task has saved its state."""
    done = threading.Event()

    def watch() -> None:
        last = 0
        while not done.wait(seconds):
            states = [_scratch_path(scratch, path) / checkpoint_file for path in writes]
            newest = max((file.stat().st_mtime_ns for file in states if file.exists()), default=0)
            if newest > last:
                last = newest
                # Read the state first: log lines that are newer than the state are dropped on resume.
                found = {str(file): file.read_bytes() for file in states if file.exists()}
                send_files(
                    {_driver_path(scratch, path): data for path, data in found.items()}
                    | _written_files(scratch, writes, found)
                )

    if not checkpoint_file:
        yield
        return
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _written_files(scratch: Path, writes: Sequence[str], known: FileContents | None = None) -> FileContents:
    found = {}
    for path in writes:
        for file in _complete_files(_scratch_path(scratch, path)):
            if str(file) not in (known or {}):
                found[_driver_path(scratch, str(file))] = file.read_bytes()
    return found


def _complete_files(path: Path) -> list[Path]:
    """Return the file itself, or the files of a directory without locks and temporary files."""
    if path.is_file():
        return [path]
    inside = sorted(path.iterdir()) if path.is_dir() else []
    return [file for file in inside if file.name not in NOT_SENT and not file.name.endswith(".tmp")]


def _scratch_path(scratch: Path, path: str) -> Path:
    return scratch / Path(path).relative_to("/")


def _driver_path(scratch: Path, path: str) -> str:
    return "/" + str(Path(path).relative_to(scratch))
