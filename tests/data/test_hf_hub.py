"""Datasets of a hub on this machine: whole, as a stream, and when the hub is gone."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from PIL import Image
from tests.helpers.hub_server import start_hub
from tests.helpers.warm import run_warm

pytest.importorskip("datasets")

READ_THE_ENVIRONMENT = ("huggingface_hub", "datasets")
TRY = """
import json, sys
from levelfield import data
from levelfield.core.errors import LevelfieldError
try:
    found = data.load("hf:owner/birds", **json.loads(sys.argv[1]))
    pixels = [int(found.images.read(row)[0, 0, 0]) for row in range(len(found))]
    test = None if found.is_test is None else found.is_test.tolist()
    about = {"labels": found.labels.tolist(), "names": found.class_names}
    print(json.dumps(about | {"pixels": pixels, "test": test}))
except LevelfieldError as error:
    print(json.dumps({"error": str(error)}))
"""


def ask(address: str, home: Path, **options: object) -> dict[str, object]:
    settings = {"HF_ENDPOINT": address, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    settings |= {"LEVELFIELD_CACHE": str(home / "levelfield"), "HF_HUB_ETAG_TIMEOUT": "2"}
    done = run_warm(["-c", TRY, json.dumps(options)], env=os.environ | settings, forget=READ_THE_ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A dataset as people push it: images in parquet files, two parts."""
    import datasets

    features = datasets.Features(image=datasets.Image(), label=datasets.ClassLabel(names=["owl", "tit"]))
    home = tmp_path / "hub" / "datasets" / "owner" / "birds" / "data"
    home.mkdir(parents=True)
    for part, count in {"train": 6, "test": 4}.items():
        rows = {
            "image": [Image.new("RGB", (4, 4), (10 * row + (part == "test"), 0, 0)) for row in range(count)],
            "label": [row % 2 for row in range(count)],
        }
        datasets.Dataset.from_dict(rows, features=features).to_parquet(
            home / f"{part}-00000-of-00001.parquet"
        )
    return tmp_path / "hub"


@pytest.mark.slow
def test_a_dataset_of_the_hub_whole_and_as_a_stream(hub: Path, tmp_path: Path) -> None:
    with start_hub(hub) as (address, _):
        whole = ask(address, tmp_path / "home")
        assert whole["labels"] == [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]
        assert whole["names"] == ["owl", "tit"]
        assert whole["pixels"] == [0, 10, 20, 30, 40, 50, 1, 11, 21, 31]
        assert whole["test"] == [False] * 6 + [True] * 4
        assert ask(address, tmp_path / "other", streaming=True) == whole
        few = ask(address, tmp_path / "other", streaming=True, limit=2)
        assert few["pixels"] == [0, 10, 1, 11]
        assert ask(address, tmp_path / "home", limit=2) == few
        wrong = ask(address, tmp_path / "other", streaming=True, label="species")
        assert 'has no column "species"' in str(wrong["error"])
    gone = ask(address, tmp_path / "empty")
    assert str(gone["error"]).startswith("hf:owner/birds cannot be opened")


@pytest.mark.slow
@pytest.mark.parametrize("streaming", [False, True])
def test_without_a_network_it_is_one_line(
    streaming: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library alone would complain a dozen times in a minute."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    settings = {"HF_ENDPOINT": "http://nowhere.invalid", "HF_HOME": str(tmp_path)}
    done = run_warm(
        ["-c", TRY, json.dumps({"streaming": streaming})],
        env=os.environ | settings,
        forget=READ_THE_ENVIRONMENT,
    )
    assert "cannot be opened" in done.stdout and len(done.stdout.splitlines()) == 1
    assert "etry" not in done.stderr, done.stderr
