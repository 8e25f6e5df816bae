"""``levelfield doctor`` reports what works, what is missing and what crashes, and survives all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from levelfield.api import doctor
from levelfield.api.doctor import DoctorCheck, run_checks
from levelfield.cli._app import run_app

FACTS = {"version": "9", "threads": 2, "cuda": [], "mps": False, "capability": "AVX512", "bfloat16": ["AMX"]}


class Machine:
    """Script runner of a machine where bfloat16 works only with some CPU limits."""

    def __init__(self, works_with: tuple[str, ...], *, torch_works: bool = True) -> None:
        self.works_with, self.torch_works = works_with, torch_works

    def __call__(self, script: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
        if "get_num_threads" in script:
            code = 0 if self.torch_works else 1
            return subprocess.CompletedProcess(
                [], code, json.dumps(FACTS), "ImportError: libtorch.so is gone"
            )
        works = settings.get("ONEDNN_MAX_CPU_ISA", "") in self.works_with
        return subprocess.CompletedProcess([], 0 if works else -4, "", "")


def found(script_runner: Machine, what: str, **options: Any) -> DoctorCheck:
    return next(f for f in run_checks(run_script=script_runner, **options) if f.what == what)


def test_bfloat16_that_works_is_good() -> None:
    check = found(Machine(("",)), "bfloat16 on the CPU")
    assert check.verdict == "good" and check.found == "works, with AMX"


def test_an_illegal_instruction_has_a_remedy() -> None:
    check = found(Machine(("AVX512_CORE", "AVX2")), "bfloat16 on the CPU")
    assert check.verdict == "note" and "SIGILL" in check.found and "reports" in check.found
    assert "ONEDNN_MAX_CPU_ISA=AVX512_CORE," in check.remedy
    never = found(Machine(()), "bfloat16 on the CPU")
    assert never.verdict == "note" and "float32" in never.remedy


def test_a_broken_torch_is_bad_and_the_other_checks_run() -> None:
    checks = list(run_checks(run_script=Machine((), torch_works=False)))
    broken = next(f for f in checks if f.what == "PyTorch works")
    assert broken.verdict == "bad" and "libtorch.so is gone" in broken.found
    assert any(f.what == "cores, memory" for f in checks)


def test_a_missing_torch_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name in doctor.OPTIONAL_PACKAGES:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    real = metadata.version
    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    checks = list(run_checks(run_script=Machine((), torch_works=False)))
    assert next(f for f in checks if f.what == "torch").remedy.startswith("pip install 'torch")
    assert all(f.verdict != "bad" for f in checks)


def test_datasets_are_found(tmp_path: Path) -> None:
    (tmp_path / "CUB_200_2011").mkdir()
    (tmp_path / "CUB_200_2011" / "images.txt").write_text("")
    assert found(Machine(("",)), "dataset cub200", roots=(tmp_path,)).verdict == "good"
    assert found(Machine(("",)), "datasets", roots=(tmp_path / "no",)).remedy


def test_a_missing_extra_has_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    check = found(Machine(("",)), "extra wandb")
    assert check.verdict == "note" and check.remedy == "pip install 'levelfield[wandb]'"


def test_every_extra_of_the_package_is_known() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].keys() - {"dev", "docs"}
    assert extras == doctor.EXTRAS.keys()


def test_a_real_process_that_dies_is_reported() -> None:
    done = doctor.run_script("import os, signal; os.kill(os.getpid(), signal.SIGILL)", {})
    assert done.returncode == -4
    assert doctor.run_script("import os; print(os.environ['X'])", {"X": "y"}).stdout == "y\n"


@pytest.mark.slow
def test_the_verb_answers_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    code = run_app(["doctor", "--json"])
    checks = json.loads(capsys.readouterr().out)
    assert code == (1 if any(f["verdict"] == "bad" for f in checks) else 0)
    torch = next(f for f in checks if f["what"] == "PyTorch works")
    assert torch["verdict"] == "good"
    assert any(f["what"] == "bfloat16 on the CPU" for f in checks)


def test_the_doctor_itself_loads_no_torch() -> None:
    code = (
        "import sys, subprocess\nfrom levelfield.api.doctor import run_checks\n"
        "dead = lambda script, settings: subprocess.CompletedProcess([], 1, '', 'no')\n"
        "list(run_checks(run_script=dead))\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
