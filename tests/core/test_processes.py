"""Workers exit when their parent process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PARENT = """
import multiprocessing, sys, time
from levelfield.core.processes import end_with_parent

def work(file):
    end_with_parent()
    import os
    with open(file + ".tmp", "w") as stream:
        stream.write(str(os.getpid()))
    os.rename(file + ".tmp", file)
    time.sleep(600)

if __name__ == "__main__":
    multiprocessing.get_context("spawn").Process(target=work, args=(sys.argv[1],)).start()
    time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_worker_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    script, pid_file = tmp_path / "parent.py", tmp_path / "pid"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(script), str(pid_file)])
    try:
        deadline = time.monotonic() + 600
        while not pid_file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        worker = int(pid_file.read_text())
        assert is_alive(worker)
    finally:
        parent.kill()
        parent.wait()
    while is_alive(worker) and time.monotonic() < deadline:
        time.sleep(0.05)
    gone = not is_alive(worker)
    if not gone:
        os.kill(worker, signal.SIGKILL)
    assert gone
