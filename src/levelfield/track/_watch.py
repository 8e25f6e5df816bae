"""Trackers beside a run: a process each, which reads the records and can do nothing to the run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from levelfield.config import Experiment, TrackSpec
from levelfield.registry import load_plugin_file
from levelfield.track._registry import check
from levelfield.track._send import POLL_SECONDS, remedy

PATIENCE_SECONDS = 60.0  # how long the end of a run waits for tools that are slow, all together


def say_on_stderr(line: str) -> None:
    """Say it where results are not."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def watching(
    experiment: Experiment,
    root: Path,
    *,
    say: Callable[[str], None] = say_on_stderr,
    poll: float = POLL_SECONDS,
    patience: float = PATIENCE_SECONDS,
) -> Iterator[None]:
    """Let the experiment's trackers follow what is written into ``root`` inside the block.

    Args:
        experiment: Its ``track`` names the trackers; its ``plugins`` may register some.
        root: The folder of its records.
        say: Is given a line when a tracker cannot be reached, once.
        poll: Seconds between two looks at the records.
        patience: Seconds that the end of the block waits for the trackers to catch up. What it has not sent
            by then stays in the records.

    Raises:
        UsageError: A tracker is not known, not installed or does not take an option; before the block.
    """
    if not experiment.track:
        yield
        return
    for plugin in experiment.plugins:
        load_plugin_file(plugin)
    for spec in experiment.track:
        check(spec)
    workers = [
        _Worker(root, spec, experiment.plugins, say=say, poll=poll, patience=patience)
        for spec in experiment.track
    ]
    try:
        yield
    except KeyboardInterrupt:
        patience = 0.0
        raise
    finally:
        for worker in workers:
            worker.announce_end()
        deadline = time.monotonic() + patience
        for worker in workers:
            worker.wait(max(0.0, deadline - time.monotonic()))


class _Worker:
    """The process of one tracker, seen from the run."""

    def __init__(
        self,
        root: Path,
        spec: TrackSpec,
        plugins: tuple[Path, ...],
        *,
        say: Callable[[str], None],
        poll: float,
        patience: float,
    ) -> None:
        self._root, self._spec, self._say = root, spec, say
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "levelfield.track._worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path},
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C ends the run; the tracker is told by the end of its input
        )
        job = {
            "root": str(root),
            "tracker": spec.model_dump(mode="json"),
            "plugins": [str(plugin.resolve()) for plugin in plugins],
            "poll": poll,
            "patience": patience,
        }
        assert self._process.stdin is not None
        with suppress(OSError):  # a worker that is gone already is spoken of at the end
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._say(line.rstrip("\n"))

    def announce_end(self) -> None:
        """Say that no more records come."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def wait(self, patience: float) -> None:
        """Let it finish, but not for longer than ``patience`` seconds."""
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self._say(
                f"{self._spec.name}: was too slow to take everything before the end; "
                f"{remedy(self._root, self._spec)}"
            )
        self._listener.join(timeout=1.0)
