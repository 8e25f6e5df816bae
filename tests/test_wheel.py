"""The archives of a release are complete, pass the index's checks, and work in an empty environment.

The environment uses this one's packages (5.5 GB of torch are not installed again), except levelfield.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns("*.egg-info", "__pycache__")

SMALL = {
    "search.trials": 1,
    "confirm.reruns": 1,
    "training.max_epochs": 1,
    "training.iterations_per_epoch": 3,
    "split.folds": 2,
    "dataset.samples_per_class": 4,
    "engine.workers": 1,
}
QUICK = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]

# Verbs that read files of the package: presets, tables, templates, assets, the built-in dataset.
VERBS = """
import sys
from pathlib import Path
import levelfield
from levelfield.cli._app import run_app
assert not Path(levelfield.__file__).is_relative_to(sys.argv[1]), "the repository, not the installed package"
for verb in (["presets", "list"], ["published", "show", "--dataset", "cub200"], ["report", sys.argv[2]],
             ["data", "check", "glyphs"]):
    assert run_app(verb) == 0, verb
"""


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Source archive, and the wheel that was built from it."""
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "src", source / "src", ignore=LEFT_OUT)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run([sys.executable, "-m", "build", "--no-isolation", str(source)], cwd=source)
    (archive,), (wheel,) = (source / "dist").glob("*.tar.gz"), (source / "dist").glob("*.whl")
    return archive, wheel


def run(command: list[str], *, cwd: Path) -> str:
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=outside)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_both_archives_hold_every_file_of_the_package(archives: tuple[Path, Path]) -> None:
    package = ROOT / "src" / "levelfield"
    files = {
        f"levelfield/{file.relative_to(package).as_posix()}" for file in package.rglob("*") if file.is_file()
    }
    files = {name for name in files if "__pycache__" not in name}
    with zipfile.ZipFile(archives[1]) as wheel:
        assert {name for name in wheel.namelist() if ".dist-info/" not in name} == files
    with tarfile.open(archives[0]) as archive:
        held = {name.partition("/src/")[2] for name in archive.getnames()}
    assert files <= held


@pytest.mark.slow
def test_the_package_index_would_take_both(archives: tuple[Path, Path]) -> None:
    said = run(
        [sys.executable, "-m", "twine", "check", "--strict", *map(str, archives)], cwd=archives[0].parent
    )
    assert said.count("PASSED") == len(archives)


def environment_with(archive: Path, directory: Path) -> Path:
    """Return the Python of a new environment in which the archive is installed."""
    run([sys.executable, "-m", "venv", "--without-pip", "venv"], cwd=directory)
    python = directory / "venv" / "bin" / "python"
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(run(ask, cwd=directory).strip())
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")  # after the environment's own
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    install += ["--no-index", "--no-build-isolation", "--ignore-installed", "--no-compile"]
    run([*install, str(archive)], cwd=directory)
    return python


@pytest.mark.slow
def test_the_source_archive_installs_into_an_empty_environment(
    archives: tuple[Path, Path], tmp_path: Path
) -> None:
    python = environment_with(archives[0], tmp_path)
    where = run([str(python), "-c", "import levelfield; print(levelfield.__file__)"], cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(tmp_path)


@pytest.mark.slow
def test_the_wheel_runs_demo_and_verbs_in_an_empty_environment(
    archives: tuple[Path, Path], tmp_path: Path
) -> None:
    python = environment_with(archives[1], tmp_path)
    shown = run([str(python.with_name("levelfield")), "demo", *QUICK, "--out", "runs/demo"], cwd=tmp_path)
    assert "MAP@R" in shown
    run([str(python), "-c", VERBS, str(ROOT), "runs/demo"], cwd=tmp_path)
    assert (tmp_path / "runs" / "demo" / "report" / "index.html").stat().st_size > 10_000
