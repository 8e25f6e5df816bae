"""Tracker processes: one for each tracker of a run. They read the records and cannot affect the run."""

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
from levelfield.core.errors import mask_password
from levelfield.core.registry import load_plugin_file
from levelfield.track._registry import check_tracker
from levelfield.track._send import POLL_SECONDS, resend_hint

TIMEOUT_SECONDS = 60.0  # maximum wait for all slow trackers at the end of a run


def print_to_stderr(line: str) -> None:
    """Print a message on stderr; stdout is for results."""
    print(line, file=sys.stderr, flush=True)


@contextmanager
def start_trackers(
    experiment: Experiment,
    root: Path,
    *,
    report: Callable[[str], None] = print_to_stderr,
    poll: float = POLL_SECONDS,
    timeout: float = TIMEOUT_SECONDS,
) -> Iterator[None]:
    """Start the experiment's trackers; they send new records of ``root`` while the block runs.

    Args:
        experiment: Experiment with ``track`` (trackers) and ``plugins`` (files that may register trackers).
        root: Experiment directory.
        report: Called with a message when a tracker cannot be reached, once per tracker.
        poll: Seconds between two polls of the records.
        timeout: Seconds that the end of the block waits for the trackers. ``levelfield track`` sends the
            missing records later.

    Raises:
        UsageError: A tracker is unknown or not installed, or rejects an option. Raised before the block.
    """
    if not experiment.track:
        yield
        return
    for plugin in experiment.plugins:
        load_plugin_file(plugin)
    for spec in experiment.track:
        check_tracker(spec)
    processes = [
        _TrackerProcess(root, spec, experiment.plugins, report=report, poll=poll, timeout=timeout)
        for spec in experiment.track
    ]
    try:
        yield
    except KeyboardInterrupt:
        timeout = 0.0
        raise
    finally:
        for process in processes:
            process.signal_end()
        deadline = time.monotonic() + timeout
        for process in processes:
            process.wait(max(0.0, deadline - time.monotonic()))


class _TrackerProcess:
    """Process of one tracker, on the side of the run."""

    def __init__(
        self,
        root: Path,
        spec: TrackSpec,
        plugins: tuple[Path, ...],
        *,
        report: Callable[[str], None],
        poll: float,
        timeout: float,
    ) -> None:
        self._root, self._spec, self._print = root, spec, report
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "levelfield.track._worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": path},
            text=True,
            encoding="utf-8",
            start_new_session=True,  # no Ctrl-C for the tracker; it ends when its stdin is closed
        )
        settings = {
            "root": str(root),
            "tracker": spec.model_dump(mode="json"),
            "plugins": [str(plugin.resolve()) for plugin in plugins],
            "poll": poll,
            "timeout": timeout,
        }
        assert self._process.stdin is not None
        with suppress(OSError):  # a process that is gone already is reported at the end
            self._process.stdin.write(json.dumps(settings) + "\n")
            self._process.stdin.flush()
        self._reader = threading.Thread(target=self._forward_messages, daemon=True)
        self._reader.start()

    def _forward_messages(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._report(line.rstrip("\n"))

    def _report(self, text: str) -> None:
        """Pass a message on; an option in it may be an address with a password."""
        self._print(mask_password(text))

    def signal_end(self) -> None:
        """Signal that no more records come."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def wait(self, timeout: float) -> None:
        """Wait for the process to finish; kill it after ``timeout`` seconds."""
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self._report(
                f"{self._spec.name}: too slow to receive all records before the end of the run; "
                f"{resend_hint(self._root, self._spec)}"
            )
        self._reader.join(timeout=1.0)
