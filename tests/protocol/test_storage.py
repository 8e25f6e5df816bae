"""A search in a database: one machine gets the same trials as without it, several share them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.helpers.warm import start_levelfield

import levelfield as lf
from levelfield.analysis import read_comparison
from levelfield.core.errors import RunError, UsageError
from levelfield.core.space import Float
from levelfield.protocol.search import _shared
from levelfield.protocol.search._storage import SharedStudy
from levelfield.records import Trial

pytestmark = pytest.mark.slow  # experiments, end to end

TRIALS = 6
SPACE = {"margin": Float(0.0, 1.0)}


def trial(number: int, score: float | None = 0.5) -> Trial:
    return Trial(number=number, hyperparameters={"margin": 0.1}, score=score)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a PostgreSQL server that runs during the tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pgserver")
        running = pgserver.get_server(tmp_path_factory.mktemp("postgres"))
    yield running.get_uri().replace("postgresql://", "postgresql+psycopg://")
    running.cleanup()


@pytest.fixture
def experiment(tiny: dict[str, Any]) -> dict[str, Any]:
    return tiny | {
        "methods": ["triplet"],
        "training": {"iterations_per_epoch": 2, "max_epochs": 1, "evaluate_every": 1, "patience": None},
        "search": {"trials": TRIALS, "sampler": "tpe"},
        "confirm": {"reruns": 1},
    }


def files(root: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (root / "searches").rglob("trial-*.json")}


@pytest.mark.parametrize("parallel", [1, 2])
def test_alone_it_is_the_search_without_a_database(
    experiment: dict[str, Any], tmp_path: Path, server: str, parallel: int
) -> None:
    experiment["search"]["parallel"] = parallel
    plain = lf.run(lf.Experiment.build(**experiment), tmp_path / "plain").path
    experiment["search"]["storage"] = server
    stored = lf.run(lf.Experiment.build(**experiment), tmp_path / "stored").path
    assert files(stored) == files(plain)
    assert not [file for file in stored.rglob("*.json*") if b"postgres" in file.read_bytes()]


def test_two_machines_share_the_trials_and_agree_on_the_selection(
    experiment: dict[str, Any], tmp_path: Path, server: str
) -> None:
    experiment["seed"] = 1
    experiment["search"]["storage"] = server
    file = tmp_path / "shared.yaml"
    file.write_text(yaml.safe_dump(experiment))
    roots = [tmp_path / "one", tmp_path / "two"]
    machines = [start_levelfield(["run", str(file), "--quiet", "--out", str(root)]) for root in roots]
    assert [machine.wait() for machine in machines] == [0, 0]
    one, two = (read_comparison(root).results[1] for root in roots)
    assert files(roots[0]) == files(roots[1])
    assert one.selection == two.selection and one.scores == two.scores
    assert len({json.dumps(trial.hyperparameters) for trial in one.trials}) == TRIALS
    confirmed = 2  # runs of the one rerun, in each directory
    shares = [len(list((root / "runs").iterdir())) - confirmed for root in roots]
    assert sum(shares) == TRIALS * 2, "no run was done twice"


def test_a_finished_search_can_be_brought_in_and_extended(
    experiment: dict[str, Any], tmp_path: Path, server: str
) -> None:
    experiment["seed"] = 2
    root = lf.run(lf.Experiment.build(**experiment), tmp_path / "runs").path
    before = files(root)
    experiment["search"] |= {"storage": server, "trials": TRIALS + 2}
    lf.run(lf.Experiment.build(**experiment), root)
    after = files(root)
    assert len(after) == TRIALS + 2 and {name: after[name] for name in before} == before


def test_a_trial_is_claimed_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    one, two = (SharedStudy(url, name="s", space=SPACE, worker=worker) for worker in ("one", "two"))
    assert [shared.state for shared in one.trials(3)] == ["waiting"] * 3
    two.trials(3)
    assert one.claim(0) and not two.claim(0) and two.claim(1)
    one.set_hyperparameters(0, {"margin": 0.1})
    one.finish(trial(0))
    two.set_hyperparameters(1, {"margin": 0.2})
    two.finish(trial(1, None).model_copy(update={"reason": "fold 0: loss is nan"}))
    found = two.trials(3)
    assert [shared.state for shared in found] == ["finished", "finished", "waiting"]
    assert found[0].record == trial(0)
    assert [shared.worker for shared in found] == ["one", "two", None]
    two.finish(trial(0, 0.9))
    assert one.trials(3)[0].record == trial(0), "the first record stays"


def test_a_machine_that_stays_away_is_replaced(
    experiment: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine runs a trial whose owner sends no heartbeat."""
    monkeypatch.setattr(_shared, "HEARTBEAT_TIMEOUT_SECONDS", 0.0)
    monkeypatch.setattr(_shared, "POLL_SECONDS", 0.01)
    url = f"sqlite:///{tmp_path / 'study.db'}"
    value = lf.Experiment.build(**experiment)
    resolved = lf.protocol.resolve_experiment(value)
    search = lf.protocol.search_id(resolved, resolved.methods[0])
    gone = SharedStudy(url, name=f"triplet {search}", space=resolved.methods[0].space, worker="gone")
    gone.trials(TRIALS)
    assert gone.claim(3)
    experiment["search"]["storage"] = url
    root = lf.run(lf.Experiment.build(**experiment), tmp_path / "runs").path
    assert len(files(root)) == TRIALS


def test_a_directory_of_another_search_cannot_join(experiment: dict[str, Any], tmp_path: Path) -> None:
    experiment["search"] = {"trials": 2, "sampler": "random", "storage": f"sqlite:///{tmp_path / 'study.db'}"}
    root = lf.run(lf.Experiment.build(**experiment), tmp_path / "runs").path
    file = next((root / "searches").rglob("trial-0000.json"))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"score": 0.123}))
    with pytest.raises(RunError, match="choose a new --out directory"):
        lf.run(lf.Experiment.build(**experiment), root)


@pytest.mark.parametrize(
    ("url", "error", "expected"),
    [
        ("nonsense", UsageError, "not a database URL"),
        ("oracle5://x", UsageError, "not a database URL"),
        ("postgresql+psycopg://user:secret@localhost:1/x", RunError, "check that it runs"),
    ],
)
def test_a_database_that_cannot_be_opened(
    experiment: dict[str, Any], tmp_path: Path, url: str, error: type[Exception], expected: str
) -> None:
    experiment["search"]["storage"] = url
    with pytest.raises(error, match=expected) as caught:
        lf.run(lf.Experiment.build(**experiment), tmp_path / "runs")
    assert "secret" not in str(caught.value)
