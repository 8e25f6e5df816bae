"""Tasks for machines that share no files with this one: a parcel holds the task and the files that it needs.

Files that a task reads go with it; those that it writes come back, and the driver puts them in their places.
A plug-in goes along as text. A dataset and a file of weights are looked for on the machine; if they are not
there, the task says so, and the driver sends them, once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pickle
import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from levelfield import files
from levelfield.data import cache_folder
from levelfield.engine._call import carry_out, is_fatal, packed
from levelfield.engine._runner import Finished, Task
from levelfield.errors import LevelfieldError, RunError
from levelfield.processes import Tell
from levelfield.records import RunSpec
from levelfield.sources import plugin_texts
from levelfield.train import PluginFile, Resources, development, prepare_process

Contents = dict[str, bytes]  # files by their path
LAST = "result.json"  # marks a run as finished, so it is written after all others
NOT_SENT = (".lock",)
HEAD_AND_TAIL = re.compile(r"[^A-Za-z0-9]+")


class NotHereError(RunError):
    """A dataset, or a file of weights, is not on this machine: "dataset" or "weights"."""


@dataclasses.dataclass(frozen=True)
class Parcel:
    """A task to be carried out elsewhere.

    Attributes:
        number: Of the task.
        call: The pickled function and job.
        reads: The files that it reads, by their path on the driver.
        writes: The paths, of files or folders, that it writes to.
        plugins: The texts of plug-ins by their hash; in each, the plug-in's own file is called ".".
    """

    number: int
    call: bytes
    reads: Contents
    writes: tuple[str, ...]
    plugins: Mapping[str, Contents]


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came of a parcel: a packed :class:`Finished`, and the files by their path on the driver."""

    finished: bytes
    contents: Contents


Fetch = Callable[[str], Iterator[Contents]]  # the parts of "dataset" or "weights", from the driver


def pack(task: Task) -> Parcel:
    """Put a task and its files together."""
    resources = getattr(task.job, "resources", None)
    plugins = resources.plugins if isinstance(resources, Resources) else ()
    return Parcel(
        number=task.number,
        call=pickle.dumps((task.function, task.job)),
        reads={str(file): file.read_bytes() for path in task.reads for file in _files_of(path)},
        writes=tuple(str(path) for path in task.writes),
        plugins={plugin.digest: plugin_texts(plugin.path) for plugin in plugins},
    )


def open_parcel(
    parcel: Parcel,
    *,
    tell: Tell,
    keep: Callable[[Contents], None],
    every: float,
    fetch: Fetch,
    machine: str = "",
) -> Answer:
    """On another machine: carry out the task of a parcel.

    Args:
        parcel: From :func:`pack`.
        tell: Is told how far the task is.
        keep: Is given what the task has written so far, each time that it has saved its state.
        every: Seconds between two looks for that.
        fetch: Gives what the driver sends of what is not here.
        machine: What this one is called, where there is something to mend on it.

    Raises:
        Exception: One that this process should end with; see :func:`levelfield.engine._call.is_fatal`.
    """
    with tempfile.TemporaryDirectory(prefix="levelfield-task-") as name:
        scratch = Path(name)
        try:
            for path, data in parcel.reads.items():
                files.write_bytes(_below(scratch, path), data)
            function, job = pickle.loads(parcel.call)
            job = moved(job, scratch, (*parcel.reads, *parcel.writes))
            job = _settled(job, parcel, fetch)
        except Exception as error:
            if is_fatal(error):
                raise
            return Answer(packed(_from(machine, Finished(parcel.number, error=error))), {})
        with _saving(scratch, parcel.writes, keep, every):
            finished = carry_out(parcel.number, function, job, tell=tell)
        if finished.error is not None and is_fatal(finished.error):
            raise finished.error
        return Answer(packed(_from(machine, finished)), _written(scratch, parcel.writes))


def _from(machine: str, finished: Finished) -> Finished:
    """The same, and an error that speaks to the user says which machine it means."""
    error = finished.error
    if not machine or not isinstance(error, LevelfieldError) or isinstance(error, NotHereError):
        return finished
    named = type(error)(f"on machine {machine}: {error}")
    return dataclasses.replace(finished, error=named.with_traceback(error.__traceback__))


def put_in_place(contents: Contents, *, writes: Sequence[Path], is_whole: bool) -> None:
    """On the driver: write files that have come back, each as a whole; the mark of a finished run last.

    Args:
        contents: The files by their path.
        writes: What the task was to write; if ``is_whole``, files there that did not come back are removed.
        is_whole: Whether this is all that the task wrote, and not a copy on the way.
    """
    for path in sorted(contents, key=lambda path: (path.endswith(LAST), path.endswith(".json"), path)):
        files.write_bytes(Path(path), contents[path])
    if is_whole:
        for folder in (path for path in writes if path.is_dir()):
            for file in _files_of(folder):
                if str(file) not in contents:
                    file.unlink()


def moved(value: Any, scratch: Path, paths: Sequence[str]) -> Any:
    """``value`` with every path that is, or lies in, one of ``paths`` put below ``scratch``.

    Example:
        >>> moved((Path("/a/b"), Path("/c")), Path("/s"), ["/a"])
        (PosixPath('/s/a/b'), PosixPath('/c'))
    """
    if isinstance(value, Path):
        inside = any(value.is_relative_to(path) for path in paths)
        return _below(scratch, str(value)) if inside else value
    if isinstance(value, tuple):
        return tuple(moved(item, scratch, paths) for item in value)
    if isinstance(value, dict):
        return {name: moved(item, scratch, paths) for name, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {
            field.name: moved(getattr(value, field.name), scratch, paths)
            for field in dataclasses.fields(value)
            if field.init
        }
        return dataclasses.replace(value, **changes)
    return value


def dataset_parts(root: Path, *, part_bytes: int = 64 * 2**20) -> Iterator[Contents]:
    """The files of a dataset by their path below ``root``, in parts of about ``part_bytes``."""
    part: Contents = {}
    size = 0
    for file in sorted(root.rglob("*")):
        if file.is_file():
            part[str(file.relative_to(root))] = data = file.read_bytes()
            size += len(data)
            if size >= part_bytes:
                yield part
                part, size = {}, 0
    yield part


def root_variable(dataset: str) -> str:
    """The environment variable that says where a dataset lies on a machine.

    Example:
        >>> root_variable("cub200"), root_variable("hf:user/set")
        ('LEVELFIELD_ROOT_CUB200', 'LEVELFIELD_ROOT_HF_USER_SET')
    """
    return f"LEVELFIELD_ROOT_{HEAD_AND_TAIL.sub('_', dataset).upper()}"


def _settled(job: Any, parcel: Parcel, fetch: Fetch) -> Any:
    """The job with plug-ins, dataset and weights where they lie on this machine."""
    resources = getattr(job, "resources", None)
    if not isinstance(resources, Resources):
        return job
    spec = job.spec if hasattr(job, "spec") else job.specs[0]
    plugins = tuple(
        PluginFile(_plugin_here(plugin, parcel.plugins[plugin.digest]), plugin.digest)
        for plugin in resources.plugins
    )
    resources = dataclasses.replace(
        resources, plugins=plugins, weights=_weights_here(resources.weights, spec, fetch)
    )
    prepare_process(resources)  # a plug-in may bring the dataset
    root = _root_here(resources, spec, fetch)
    return dataclasses.replace(job, resources=dataclasses.replace(resources, dataset_root=root))


def _plugin_here(plugin: PluginFile, texts: Contents) -> Path:
    """The plug-in's file in this machine's cache, with the modules that it imports beside it."""
    folder = cache_folder() / "plugins" / plugin.digest
    file = folder / plugin.path.name
    if not file.exists():
        for name, text in texts.items():
            if name != ".":
                files.write_bytes(folder / name, text)
        files.write_bytes(file, texts["."])
    return file


def _root_here(resources: Resources, spec: RunSpec, fetch: Fetch) -> Path | None:
    """Where the dataset lies on this machine: what lies there must be the very same, else it is sent."""
    given = os.environ.get(root_variable(spec.data.name))
    if given is None and resources.dataset_root is None:
        return None
    here = Path(given) if given is not None else resources.dataset_root
    if here is not None and here.exists() and _holds(here, resources, spec):
        return here
    copy = cache_folder() / "datasets" / hashlib.sha256(spec.data.fingerprint.encode()).hexdigest()[:16]
    return _fetched(copy, "dataset", fetch)


def _holds(root: Path, resources: Resources, spec: RunSpec) -> bool:
    """Whether the dataset of a run lies there, by its fingerprint; opened once in a process, as for runs."""
    try:
        development(spec, dataclasses.replace(resources, dataset_root=root))
    except LevelfieldError:  # another version of it, or something else altogether
        return False
    return True


def _weights_here(weights: str, spec: RunSpec, fetch: Fetch) -> str:
    if not spec.trunk.weights.startswith("sha256:") or Path(weights).is_file():
        return weights
    name = Path(weights).name
    copy = cache_folder() / "weights" / spec.trunk.weights.removeprefix("sha256:")
    return str(_fetched(copy, "weights", fetch) / name)


def _fetched(folder: Path, what: str, fetch: Fetch) -> Path:
    """A folder of this machine's cache, filled by the driver if it is not there; whole or absent."""
    with files.lock(folder.with_name(f".{folder.name}.lock")):
        if not folder.exists():
            half = folder.with_name(f".{folder.name}.part")
            for part in fetch(what):
                for name, data in part.items():
                    files.write_bytes(half / name, data)
            half.replace(folder)
    return folder


@contextmanager
def _saving(
    scratch: Path, writes: Sequence[str], keep: Callable[[Contents], None], every: float
) -> Iterator[None]:
    """Now and then hand out what a task has written, if it has saved its state since."""
    done = threading.Event()

    def watch() -> None:
        last = 0
        while not done.wait(every):
            states = [_below(scratch, path) / "state.pt" for path in writes]
            newest = max((file.stat().st_mtime_ns for file in states if file.exists()), default=0)
            if newest > last:
                last = newest
                # The state first: what is logged after it is forgotten when a run goes on from it.
                found = {str(file): file.read_bytes() for file in states if file.exists()}
                keep(
                    {_original(scratch, path): data for path, data in found.items()}
                    | _written(scratch, writes, found)
                )

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _written(scratch: Path, writes: Sequence[str], known: Contents | None = None) -> Contents:
    found = {}
    for path in writes:
        for file in _files_of(_below(scratch, path)):
            if str(file) not in (known or {}):
                found[_original(scratch, str(file))] = file.read_bytes()
    return found


def _files_of(path: Path) -> list[Path]:
    """The file itself, or the finished files of a folder; none if there is nothing."""
    if path.is_file():
        return [path]
    inside = sorted(path.iterdir()) if path.is_dir() else []
    return [file for file in inside if file.name not in NOT_SENT and not file.name.endswith(".tmp")]


def _below(scratch: Path, path: str) -> Path:
    return scratch / Path(path).relative_to("/")


def _original(scratch: Path, path: str) -> str:
    return "/" + str(Path(path).relative_to(scratch))
