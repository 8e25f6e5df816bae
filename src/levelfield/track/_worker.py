"""Process of one tracker: ``python -m levelfield.track._worker``, started by :func:`start_trackers`.

The first line on stdin has the settings as JSON. The end of stdin means that the run is over or was killed.
Then the remaining records are sent, and this process ends, after the timeout at the latest. Messages for the
user go to stdout, one per line. Output of the tools' libraries goes to a log file.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from levelfield.config import TrackSpec
from levelfield.core import files
from levelfield.core.errors import LevelfieldError
from levelfield.core.registry import load_plugin_file
from levelfield.track._send import follow_records, resend_hint, tracker_directory


def main() -> None:
    """Send the records of the run given on stdin to one tracker."""
    if hasattr(os, "nice"):
        os.nice(5)  # the run has priority
    settings = json.loads(sys.stdin.readline())
    root, spec, poll = Path(settings["root"]), TrackSpec(**settings["tracker"]), float(settings["poll"])
    ended = threading.Event()
    threading.Thread(target=_wait_for_end, args=(ended, float(settings["timeout"])), daemon=True).start()
    while not (root / "experiment.json").exists():  # the run creates the directory, not the tracker
        if ended.wait(poll):
            return
    report = _redirect_output(tracker_directory(root) / f"{spec.name}.log")
    try:
        for plugin in settings["plugins"]:
            load_plugin_file(plugin)
        follow_records(root, spec, ended=ended, report=report, poll=poll)
    except Exception as error:
        message = error if isinstance(error, LevelfieldError) else f"{type(error).__name__}: {error}"
        report(f"{spec.name}: {message}; {resend_hint(root, spec)}")
    finally:
        os._exit(0)  # do not wait for hanging threads of a library


def _wait_for_end(ended: threading.Event, timeout: float) -> None:
    while sys.stdin.readline():
        pass
    ended.set()
    time.sleep(timeout)
    os._exit(1)  # a hanging tool would block the tracker of the next run


def _redirect_output(log: Path) -> Callable[[str], None]:
    """Redirect stdout and stderr to ``log``; return a function that sends a line to the parent process."""
    files.make_directory(log.parent)
    parent = os.fdopen(os.dup(1), "w", encoding="utf-8")
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)
    logging.captureWarnings(True)

    def report(line: str) -> None:
        try:
            print(line, file=parent, flush=True)
        except OSError:  # the parent is gone
            return

    return report


if __name__ == "__main__":
    main()
