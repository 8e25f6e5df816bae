"""Processes of torchrun that are killed: the others end by themselves, in one line.

``benchmarks/robustness/kill_torchrun.py`` kills whole experiments at random moments.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from levelfield.core.errors import RunError
from levelfield.engine import TorchrunEngine, _torchrun

pytestmark = pytest.mark.slow

SCRIPT = """
import os, pathlib, sys, time
import torch
import torch.distributed as dist
from levelfield.core.errors import LevelfieldError
from levelfield.engine import Task, TorchrunEngine, is_rank_zero

def work(job):
    pathlib.Path(job, os.environ["RANK"]).write_text(str(os.getpid()))
    while True:
        dist.all_reduce(torch.ones(1))

try:
    with TorchrunEngine([work]).open() as ranks:
        if is_rank_zero():
            ranks.submit(Task(0, work, sys.argv[1]))
            [result] = ranks.wait()
            raise result.error
        ranks.follow()
except LevelfieldError as error:
    pathlib.Path(sys.argv[1], "said-" + os.environ["RANK"]).write_text(str(error))
    sys.exit(1)
"""


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def start(directory: Path) -> tuple[subprocess.Popen[bytes], list[int]]:
    """Start two ranks that exchange numbers for ever; return torchrun and the process of each rank."""
    script = directory / "script.py"
    script.write_text(SCRIPT)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    agent = subprocess.Popen(
        [sys.executable, *torchrun, str(directory)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    files = [directory / "0", directory / "1"]
    while not all(file.exists() and file.read_text() for file in files):
        assert agent.poll() is None, "torchrun ended early"
        time.sleep(0.02)
    return agent, [int(file.read_text()) for file in files]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_whose_partner_was_killed_ends_in_one_line(tmp_path: Path, victim: int) -> None:
    agent, ranks = start(tmp_path)
    os.kill(ranks[victim], signal.SIGKILL)
    assert agent.wait() != 0
    assert not any(is_alive(pid) for pid in ranks)
    said = tmp_path / f"said-{1 - victim}"
    # torchrun may end the other rank before it could say anything.
    assert not said.exists() or said.read_text().startswith("another process of torchrun has ended")


def test_ranks_end_when_torchrun_is_killed(tmp_path: Path) -> None:
    """Before, they trained on without it, and kept the experiment locked."""
    agent, ranks = start(tmp_path)
    agent.kill()
    agent.wait()
    while any(is_alive(pid) for pid in ranks):
        time.sleep(0.02)


def test_a_rank_that_starts_after_torchrun_was_killed_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, it tried to reach torchrun for several minutes."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # no process listens on this port
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken.getsockname()[1])}
        rank = {"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_USE_AGENT_STORE": "True"}
        for name, value in (address | rank).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(_torchrun, "end_when_orphaned", lambda: None)
        group = TorchrunEngine([]).open()
        with pytest.raises(RunError, match="torchrun has ended; give the same command again"):
            group.__enter__()
