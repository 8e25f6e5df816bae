"""A finished experiment can be run again from its records, and differences are reported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.made_experiments import write_experiment

import levelfield as lf
from levelfield.api import archive
from levelfield.core.errors import UsageError
from levelfield.protocol import reproduce
from levelfield.protocol._reproduce import describe_changes, recorded_experiment
from levelfield.records import remember_dataset_root

__all__ = ["write_experiment"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.conftest import tiny_values

    values = tiny_values() | {"methods": ["triplet"]}
    values["training"] = {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    return lf.run(lf.Experiment.build(**values), tmp_path_factory.mktemp("runs") / "tiny").path


def plugins() -> tuple[Path, ...]:
    from tests.conftest import TOY_PLUGIN

    return (TOY_PLUGIN,)


@pytest.mark.slow
def test_the_same_environment_gives_identical_numbers(finished: Path) -> None:
    found = reproduce(finished, plugins=plugins(), workers=0)
    assert found.folder == finished.with_name("tiny-reproduced")
    assert (
        len(found.numbers) == 2 * 2 * 3
    )  # the method and the untrained network, two settings, three metrics
    assert found.count("identical") == len(found.numbers)
    assert not found.selections and not found.environment


def test_differences_in_numbers_and_surroundings_are_said(finished: Path, tmp_path: Path) -> None:
    """Records of another machine with other reruns are consistent or different."""
    import shutil

    other = tmp_path / "other"
    shutil.copytree(finished, other)
    for file in (other / "runs").glob("*/provenance.json"):
        facts = json.loads(file.read_text())
        facts["versions"]["torch"], facts["host"] = "1.0", "elsewhere"
        file.write_text(json.dumps(facts))
    for file in (other / "confirmations").rglob("rerun-*.json"):
        scores = json.loads(file.read_text())
        scores["separated"]["map_at_r"] += 0.5
        scores["concatenated"]["map_at_r"] *= 1.0001
        file.write_text(json.dumps(scores))
    found = reproduce(other, tmp_path / "again", plugins=plugins(), workers=0)
    verdicts = {(n.method, n.setting, n.metric): n.verdict for n in found.numbers}
    assert verdicts["triplet", "separated", "map_at_r"] == "different"
    assert verdicts["triplet", "concatenated", "map_at_r"] == "consistent"
    assert verdicts["triplet", "separated", "precision_at_1"] == "identical"
    assert [line for line in found.environment if line.startswith("versions.torch: 1.0 -> ")]
    assert [line for line in found.environment if line.startswith("host: elsewhere -> ")]


def test_the_recorded_threads_are_used_again(finished: Path) -> None:
    experiment = recorded_experiment(finished, workers=3)
    engine = experiment.engine
    assert (engine.threads, engine.workers, engine.device) == (1, 3, "cpu")


def test_what_cannot_be_reproduced_is_refused(finished: Path, tmp_path: Path) -> None:
    import shutil

    with pytest.raises(UsageError, match="the experiment itself"):
        reproduce(finished, finished, plugins=plugins())
    other = tmp_path / "unfinished"
    shutil.copytree(finished, other)
    for file in (other / "confirmations").rglob("rerun-01.json"):
        file.unlink()
    with pytest.raises(UsageError, match="1 of 2 reruns"):
        reproduce(other, plugins=plugins())


def test_a_fact_that_was_not_recorded() -> None:
    assert describe_changes({}, {"threads": {"1"}}) == ["threads: not recorded -> 1"]


@pytest.mark.slow
def test_editing_an_experiment_does_only_the_new_work(tmp_path: Path, tiny: dict[str, Any]) -> None:
    from levelfield.reports import write_report

    tiny["training"] = {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    tiny["methods"] = ["triplet"]
    root = lf.run(lf.Experiment.build(**tiny), tmp_path / "runs").path
    before = {file: file.stat().st_mtime_ns for file in (root / "runs").glob("*/result.json")}
    tiny["methods"] = ["triplet", "contrastive"]
    lf.run(lf.Experiment.build(**tiny), root)
    after = {file: file.stat().st_mtime_ns for file in (root / "runs").glob("*/result.json")}
    assert len(after) == 2 * len(before)
    assert {file: after[file] for file in before} == before
    assert "contrastive" in "".join(
        line for line in write_report(root).read_text().splitlines() if " -&gt; " in line or " -> " in line
    )


@pytest.mark.slow
def test_one_method_alone_gives_the_numbers_it_gave_among_others(tmp_path: Path) -> None:
    """An archive can be reproduced too, as it is what others get."""
    from tests.conftest import tiny_values

    from levelfield.api import archive

    values = tiny_values() | {"methods": ["triplet", "contrastive"]}
    values["training"] = {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None}
    archive(lf.run(lf.Experiment.build(**values), tmp_path / "runs").path, tmp_path / "archive")
    found = reproduce(tmp_path / "archive", methods=["contrastive"], plugins=plugins(), workers=0)
    assert {number.method for number in found.numbers} == {"contrastive", "untrained"}
    assert found.count("identical") == len(found.numbers)
    assert not found.selections and not found.environment
    with pytest.raises(UsageError, match="did you mean"):
        reproduce(tmp_path / "archive", methods=["contrastiv"], plugins=plugins(), workers=0)


def test_records_of_a_stranger_name_no_code(finished: Path, tmp_path: Path) -> None:
    """A record that names a repository runs nothing, and its addresses are not used."""
    import shutil

    stranger = tmp_path / "repository"
    stranger.mkdir()
    (stranger / "hubconf.py").write_text(f"open({str(tmp_path / 'it-ran')!r}, 'w').close()\n")
    other = tmp_path / "other"
    shutil.copytree(finished, other)
    record = json.loads((other / "experiment.json").read_text())
    record["experiment"]["trunk"] = {"name": f"hub:{stranger}/net"}
    record["experiment"]["search"]["storage"] = "sqlite:///stranger.db"
    (other / "experiment.json").write_text(json.dumps(record))
    for attempt in (
        lambda: reproduce(other, tmp_path / "again", plugins=plugins(), workers=0),
        lambda: lf.export(other, tmp_path / "model", method="triplet", plugins=plugins()),
    ):
        with pytest.raises(UsageError, match=r"would run the file hubconf\.py of .*repository"):
            attempt()
    assert not (tmp_path / "it-ran").exists()
    assert recorded_experiment(other, trust=True).search.storage is None


def test_images_are_read_where_the_run_found_them(
    write_experiment: Callable[..., Path], tmp_path: Path
) -> None:
    root = write_experiment(dataset="folder")
    with pytest.raises(UsageError, match=r"the images of .* are not where they were.*with --root"):
        recorded_experiment(root)
    (tmp_path / "photos").mkdir()
    remember_dataset_root(root, tmp_path / "photos")
    assert recorded_experiment(root).dataset.root == tmp_path / "photos"
    assert recorded_experiment(root, root=tmp_path).dataset.root == tmp_path
    archive(root, tmp_path / "archive")
    assert not (tmp_path / "archive" / "local.json").exists()
    (root / "local.json").write_text('{"dataset_root": 3}')
    with pytest.raises(UsageError, match="--root"):
        recorded_experiment(root)
