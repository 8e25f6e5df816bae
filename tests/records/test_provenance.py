"""The recorded commit is that of the package, never that of a repository around it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import levelfield

SOURCE = Path(levelfield.__file__).parent
ASK = "from levelfield.records import environment; print(environment().commit)"


def commit_seen(site: Path) -> str:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, cwd=site, check=True)
    return done.stdout.strip()


def installed(repository: Path) -> Path:
    """Copy the package into an environment inside another repository."""
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@x"]
    subprocess.run([*git, "init", "-q", str(repository)], check=True)
    subprocess.run([*git, "-C", str(repository), "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    site = repository / "env"
    shutil.copytree(SOURCE, site / "levelfield", ignore=shutil.ignore_patterns("__pycache__"))
    return site


def test_a_repository_around_the_environment_says_nothing(tmp_path: Path) -> None:
    site = installed(tmp_path)
    (site / "levelfield-9.dist-info").mkdir()
    (site / "levelfield-9.dist-info" / "METADATA").write_text("Name: levelfield\nVersion: 9\n")
    assert commit_seen(site) == "None"


def test_pip_remembers_the_commit(tmp_path: Path) -> None:
    site = installed(tmp_path)
    info = site / "levelfield-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: levelfield\nVersion: 9\n")
    origin = {"url": "file:///x", "vcs_info": {"vcs": "git", "commit_id": "0123456789abcdef0123"}}
    (info / "direct_url.json").write_text(json.dumps(origin))
    assert commit_seen(site) == "0123456789ab"
