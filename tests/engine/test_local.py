"""What goes wrong in a worker is said in one line that names the cause."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import levelfield as lf
from levelfield import engine
from levelfield.config import EngineSpec
from levelfield.engine import Engine, Runner
from levelfield.errors import RunError, UsageError
from odd_jobs import be_killed, leave


@pytest.mark.parametrize("workers", [0, 1])
def test_a_job_that_exits_is_an_error(workers: int) -> None:
    """Also with code 0: the command must not end as if all were well."""
    with pytest.raises(RunError, match=r"called sys\.exit\(0\)"), Engine(workers=workers).open() as runner:
        runner.map(leave, [0])


def test_a_killed_worker_is_said_to_be_killed() -> None:
    with pytest.raises(RunError, match="out of memory, or killed"), Engine(workers=1).open() as runner:
        runner.map(be_killed, [0])


def test_what_a_worker_cannot_import_is_named(tmp_path: Path) -> None:
    """A module that is there when a job is made, and gone when the worker needs it."""
    (tmp_path / "gone_module.py").write_text("def job(x):\n    return x\n")
    code = (
        f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\nimport gone_module, os\n"
        "from levelfield.engine import Engine\n"
        "if __name__ == '__main__':\n"
        f"    os.remove({str(tmp_path / 'gone_module.py')!r})\n"
        "    with Engine(workers=1).open() as engine:\n"
        "        sys.path.pop(0)\n"
        "        engine.map(gone_module.job, [1])\n"
    )
    script = tmp_path / "script.py"
    script.write_text(
        code.replace("import gone_module, os\n", "import os\n").replace(
            "if __name__ == '__main__':\n", "if __name__ == '__main__':\n    import gone_module\n"
        )
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert "a worker process cannot import what it needs" in last and "gone_module" in last


def test_a_script_without_a_guard_gets_the_right_hint(tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny |= {"engine": {"workers": 1}, "methods": ["triplet"]}
    script = tmp_path / "script.py"
    script.write_text(
        f"import levelfield as lf\nlf.run(lf.Experiment.build(**{tiny!r}), {str(tmp_path / 'out')!r})\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert 'if __name__ == "__main__":' in last and "out of memory" not in last


def test_a_plugin_that_exits_while_it_is_imported(tiny: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "leaver.py").write_text("import sys\nsys.exit(0)\n")
    file = tmp_path / "x.yaml"
    file.write_text(yaml.safe_dump(tiny | {"plugins": ["leaver.py"]}))
    done = subprocess.run(
        [sys.executable, "-m", "levelfield", "run", str(file), "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "leaver.py fails on import: it calls sys.exit(0)" in done.stderr


class _Backwards:
    """Carries out the last job first."""

    def map(self, function: Any, jobs: Any, *, on_done: Any = lambda: None) -> Any:
        results = [function(job) for job in reversed(list(jobs))]
        for _ in results:
            on_done()
        return results[::-1]


def test_an_engine_of_ones_own(tiny: dict[str, Any], tmp_path: Path) -> None:
    opened = []

    @engine.register("backwards")
    @contextmanager
    def backwards(*, threads: int = 1, note: str = "") -> Iterator[Runner]:
        """Last job first."""
        opened.append((threads, note))
        yield _Backwards()

    tiny["methods"] = ["triplet"]
    mine = lf.run(
        lf.Experiment.build(**tiny | {"engine": {"name": "backwards", "note": "hello"}}), tmp_path / "mine"
    )
    usual = lf.run(lf.Experiment.build(**tiny), tmp_path / "usual")
    assert opened == [(1, "hello")]
    results = [(root / "report" / "results.csv").read_bytes() for root in (mine, usual)]
    assert results[0] == results[1]


def test_unknown_engines_and_options_are_refused() -> None:
    with pytest.raises(UsageError, match=r'unknown engine "locl"; did you mean "local"'):
        engine.create(EngineSpec(name="locl"))
    with pytest.raises(UsageError, match=r'engine "local" has no parameter "wokers"; did you mean "workers"'):
        engine.create(EngineSpec.model_validate({"wokers": 2}))
