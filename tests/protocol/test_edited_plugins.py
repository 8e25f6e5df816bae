"""A plug-in that is edited before or during an experiment is never taken for the old version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import levelfield as lf
from levelfield.analysis import read_comparison
from levelfield.core.errors import LockedTestSetError, RunError, UsageError
from levelfield.core.registry import load_plugin_file
from levelfield.protocol import ProgressEvent, ProgressState, guard, resolve_experiment
from levelfield.records import Selection, Store
from levelfield.train import PluginFile, Resources, prepare_process

pytestmark = pytest.mark.slow

LOSS = """
import torch
import levelfield as lf

@lf.losses.register("{name}", space={{"weight": lf.Float(0.5, 1.0)}})
class Edited(torch.nn.Module):
    def __init__(self, weight: float = 0.5):
        super().__init__()
        self.weight = weight

    def forward(self, embeddings, labels):
        return self.weight * {sign} * embeddings.square().sum(0).var()
"""
METRIC = """
import levelfield as lf

@lf.metrics.register("edited_metric", kind="structure", higher_is_better=True)
def edited_metric(space):
    return {value}
"""


def test_a_worker_that_finds_another_text_refuses(tmp_path: Path) -> None:
    file = tmp_path / "plugin.py"
    file.write_text(LOSS.format(name="edited_for_workers", sign=1))
    digest = load_plugin_file(file)
    prepare_process(Resources(plugins=(PluginFile(file, digest),)))
    with pytest.raises(RunError, match="changed while the experiment ran; give the same command again"):
        prepare_process(Resources(plugins=(PluginFile(file, "another hash"),)))


def test_a_loss_that_is_edited_while_the_experiment_runs(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of the old source are stored under its digest, also those after the edit."""
    file = tmp_path / "plugin.py"
    file.write_text(LOSS.format(name="edited_loss", sign=1))
    digest = load_plugin_file(file)
    tiny |= {"plugins": [*tiny["plugins"], str(file)], "methods": ["edited_loss"]}

    class EditAfterTheFirstRun:
        def update(self, progress_state: ProgressState, event: ProgressEvent) -> None:
            if event.kind == "finished":
                file.write_text(LOSS.format(name="edited_loss", sign=-1))

    experiment = lf.Experiment.build(**tiny)
    root = lf.run(experiment, tmp_path / "out", progress=EditAfterTheFirstRun()).path
    specs = [run.spec() for run in Store(root).runs()]
    assert len(specs) > 4 and {spec.recipe.sources["loss"] for spec in specs} == {digest}
    assert Store(root).experiment_record().plugins["plugin.py"] == digest
    with pytest.raises(UsageError, match="was changed after this process imported it"):
        resolve_experiment(experiment)


def test_workers_that_import_late_refuse_an_edited_loss(tiny: dict[str, Any], tmp_path: Path) -> None:
    """The plug-in is edited after the main process imported it and before the workers do."""
    file = tmp_path / "plugin.py"
    file.write_text(LOSS.format(name="edited_late", sign=1))
    tiny |= {"plugins": [*tiny["plugins"], str(file)], "methods": ["edited_late"], "engine": {"workers": 1}}

    class EditBeforeTheFirstRun:
        def update(self, progress_state: ProgressState, event: ProgressEvent) -> None:
            file.write_text(LOSS.format(name="edited_late", sign=-1))

    with pytest.raises(RunError, match="changed while the experiment ran"):
        lf.run(lf.Experiment.build(**tiny), tmp_path / "out", progress=EditBeforeTheFirstRun())
    assert not [run for run in Store(tmp_path / "out").runs() if run.result() is not None]


def test_an_edited_metric_is_computed_anew(
    tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "metric.py").write_text(METRIC.format(value=0.25))
    tiny |= {
        "plugins": [*tiny["plugins"], str(tmp_path / "metric.py")],
        "metrics": ["map_at_r", "edited_metric"],
        "methods": ["triplet"],
    }
    root = lf.run(lf.Experiment.build(**tiny), tmp_path / "out").path
    (before,) = read_comparison(root).trained
    # Another process, which imported another version of the file, recorded another digest.
    for file in (root / "confirmations").rglob("rerun-*.json"):
        rerun = json.loads(file.read_text())
        rerun["metric_sources"]["edited_metric"] = "the hash of an older text"
        rerun["concatenated"]["edited_metric"] = 0.75
        file.write_text(json.dumps(rerun))
    lf.run(lf.Experiment.build(**tiny), root)
    (after,) = read_comparison(root).trained
    assert after.scores == before.scores
    assert Store(root).ledger()[-2].event == "reopened for other metrics"


def test_the_guard_knows_the_dataset_again(tiny: dict[str, Any], tmp_path: Path) -> None:
    """Test images of a dataset that changed after the search are not scored."""
    resolved = resolve_experiment(lf.Experiment.build(**tiny))
    spec = resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0)
    store = Store(tmp_path)
    file = store.freeze(Selection(method="triplet"))
    permit = guard.open_test(store, file, reruns=[0])
    assert len(guard.test_view(permit, spec, resolved.resources)) > 0
    other = spec.model_copy(update={"data": spec.data.model_copy(update={"fingerprint": "another"})})
    with pytest.raises(RunError, match="has changed since the experiment began"):
        guard.test_view(permit, other, resolved.resources)
    file.unlink()
    with pytest.raises(LockedTestSetError):
        guard.test_view(permit, spec, resolved.resources)


def test_lf_run_writes_the_report(tiny: dict[str, Any], tmp_path: Path) -> None:
    root = lf.run(lf.Experiment.build(**tiny | {"methods": ["triplet"]}), tmp_path / "out").path
    assert "triplet" in (root / "report" / "index.html").read_text()
    assert "| triplet |" in (root / "report" / "results.md").read_text()
