"""``levelfield doctor`` finds what is there, what is missing and what lies, and survives all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from levelfield import doctor
from levelfield.cli._app import run_app
from levelfield.doctor import Finding, examine

FACTS = {"version": "9", "threads": 2, "cuda": [], "mps": False, "capability": "AVX512", "bfloat16": ["AMX"]}


class Machine:
    """Answers scripts like a machine whose bfloat16 lives only below a limit."""

    def __init__(self, lives_with: tuple[str, ...], *, torch_works: bool = True) -> None:
        self.lives_with, self.torch_works = lives_with, torch_works

    def __call__(self, script: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
        if "get_num_threads" in script:
            code = 0 if self.torch_works else 1
            return subprocess.CompletedProcess(
                [], code, json.dumps(FACTS), "ImportError: libtorch.so is gone"
            )
        lives = settings.get("ONEDNN_MAX_CPU_ISA", "") in self.lives_with
        return subprocess.CompletedProcess([], 0 if lives else -4, "", "")


def found(ask: Machine, what: str, **options: object) -> Finding:
    return next(f for f in examine(ask=ask, **options) if f.what == what)  # type: ignore[arg-type]


def test_bfloat16_that_works_is_good() -> None:
    finding = found(Machine(("",)), "bfloat16 on the CPU")
    assert finding.verdict == "good" and finding.found == "works, with AMX"


def test_an_illegal_instruction_is_a_finding_with_a_remedy() -> None:
    finding = found(Machine(("AVX512_CORE", "AVX2")), "bfloat16 on the CPU")
    assert finding.verdict == "note" and "SIGILL" in finding.found and "announces" in finding.found
    assert "ONEDNN_MAX_CPU_ISA=AVX512_CORE," in finding.remedy
    never = found(Machine(()), "bfloat16 on the CPU")
    assert never.verdict == "note" and "float32" in never.remedy


def test_a_broken_torch_is_bad_and_the_rest_is_told() -> None:
    findings = list(examine(ask=Machine((), torch_works=False)))
    broken = next(f for f in findings if f.what == "PyTorch works")
    assert broken.verdict == "bad" and "libtorch.so is gone" in broken.found
    assert any(f.what == "cores, memory" for f in findings)


def test_who_left_torch_out_on_purpose_is_not_ill(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name in doctor.HEAVY:
            raise metadata.PackageNotFoundError(name)
        return real(name)

    real = metadata.version
    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    findings = list(examine(ask=Machine((), torch_works=False)))
    assert next(f for f in findings if f.what == "torch").remedy.startswith("pip install 'torch")
    assert all(f.verdict != "bad" for f in findings)


def test_data_that_lie_there_are_found(tmp_path: Path) -> None:
    (tmp_path / "CUB_200_2011").mkdir()
    (tmp_path / "CUB_200_2011" / "images.txt").write_text("")
    assert found(Machine(("",)), "dataset cub200", roots=(tmp_path,)).verdict == "good"
    assert found(Machine(("",)), "datasets", roots=(tmp_path / "no",)).remedy


def test_a_missing_extra_names_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    finding = found(Machine(("",)), "extra wandb")
    assert finding.verdict == "note" and finding.remedy == "pip install 'levelfield[wandb]'"


def test_every_extra_of_the_package_is_known() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].keys() - {"dev", "docs"}
    assert extras == doctor.EXTRAS.keys()


def test_a_real_process_that_dies_is_told() -> None:
    done = doctor.ask("import os, signal; os.kill(os.getpid(), signal.SIGILL)", {})
    assert done.returncode == -4
    assert doctor.ask("import os; print(os.environ['X'])", {"X": "y"}).stdout == "y\n"


@pytest.mark.slow
def test_the_verb_answers_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    code = run_app(["doctor", "--json"])
    findings = json.loads(capsys.readouterr().out)
    assert code == (1 if any(f["verdict"] == "bad" for f in findings) else 0)
    torch = next(f for f in findings if f["what"] == "PyTorch works")
    assert torch["verdict"] == "good"
    assert any(f["what"] == "bfloat16 on the CPU" for f in findings)


def test_the_doctor_itself_loads_no_torch() -> None:
    code = (
        "import sys, subprocess\nfrom levelfield.doctor import examine\n"
        "dead = lambda script, settings: subprocess.CompletedProcess([], 1, '', 'no')\n"
        "list(examine(ask=dead))\nprint('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
