"""The process of one tracker: ``python -m levelfield.track._worker``, started by :func:`watching`.

The first line on standard input is the job. The end of the input says that the run is over, or that its
process was killed: then what is left is sent, and this process ends too, at the latest when the run's
patience is over. What is to be said goes to standard output, a line each; what the tools' own libraries print
goes to a log file.
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

from levelfield import files
from levelfield.config import TrackSpec
from levelfield.errors import LevelfieldError
from levelfield.registry import load_plugin_file
from levelfield.track._send import folder_of, follow, remedy


def main() -> None:
    """Follow the records that the job names."""
    if hasattr(os, "nice"):
        os.nice(5)  # the runs come first
    job = json.loads(sys.stdin.readline())
    root, spec, poll = Path(job["root"]), TrackSpec(**job["tracker"]), float(job["poll"])
    ended = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=(ended, float(job["patience"])), daemon=True).start()
    while not (root / "experiment.json").exists():  # the run alone decides what a new folder begins with
        if ended.wait(poll):
            return
    say = _keep_output_for_us(folder_of(root) / f"{spec.name}.log")
    try:
        for plugin in job["plugins"]:
            load_plugin_file(plugin)
        follow(root, spec, ended=ended, say=say, poll=poll)
    except Exception as error:
        said = error if isinstance(error, LevelfieldError) else f"{type(error).__name__}: {error}"
        say(f"{spec.name}: {said}; {remedy(root, spec)}")
    finally:
        os._exit(0)  # a library's thread that hangs must not keep us


def _wait_for_the_end(ended: threading.Event, patience: float) -> None:
    while sys.stdin.readline():
        pass
    ended.set()
    time.sleep(patience)
    os._exit(1)  # a tool that hangs would keep the next run's tracker waiting


def _keep_output_for_us(log: Path) -> Callable[[str], None]:
    """A function that says a line to the parent; everything else that is printed goes to ``log``."""
    files.make_folder(log.parent)
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)
    logging.captureWarnings(True)

    def say(line: str) -> None:
        try:
            print(line, file=ours, flush=True)
        except OSError:  # the parent is gone
            return

    return say


if __name__ == "__main__":
    main()
