"""The wheel works elsewhere: in a fresh environment, outside the repository, it runs demo and examples.

The environment borrows this one's packages (5.5 GB of torch are not installed again) but not its levelfield.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import levelfield

ROOT = Path(__file__).parents[1]
QUICK = ["--set", "search.trials=1", "--set", "confirm.reruns=1", "--set", "training.max_epochs=2"]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the new environment's programs."""
    home = tmp_path_factory.mktemp("elsewhere")
    source = home / "source"
    source.mkdir()
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(home),
        str(source),
    ]
    run(build, cwd=home)
    shutil.rmtree(source)
    run([sys.executable, "-m", "venv", "--without-pip", str(home / "venv")], cwd=home)
    python = home / "venv" / "bin" / "python"
    site = Path(
        run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], cwd=home).strip()
    )
    (wheel,) = home.glob("levelfield-*.whl")
    install = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        str(wheel),
    ]
    run(install, cwd=home)
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")  # after the environment's own
    return home / "venv" / "bin"


def run(command: list[str], *, cwd: Path) -> str:
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=outside)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_the_wheel_runs_demo_and_examples_elsewhere(fresh: Path, tmp_path: Path) -> None:
    where = run([str(fresh / "python"), "-c", "import levelfield; print(levelfield.__file__)"], cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(fresh.parent), "the installed package, not the repository"
    assert (
        "map" in run([str(fresh / "levelfield"), "demo", *QUICK, "--out", "runs/demo"], cwd=tmp_path).lower()
    )
    assert (tmp_path / "runs" / "demo" / "report" / "index.html").stat().st_size > 10_000
    for verb in (["presets", "list"], ["published", "show", "--dataset", "cub200"], ["report", "runs/demo"]):
        run([str(fresh / "levelfield"), *verb], cwd=tmp_path)
    run([str(fresh / "levelfield"), "track", "runs/demo", "--to", "tensorboard"], cwd=tmp_path)
    for example in sorted((ROOT / "examples").glob("*.py")):
        shutil.copy(example, tmp_path)
        run([str(fresh / "python"), example.name, f"out-{example.stem}"], cwd=tmp_path)


def test_the_version_stands_in_three_places_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert project["version"] == levelfield.__version__
    assert f"\nversion: {levelfield.__version__}\n" in citation
