"""Trunks of hubs, against a hub on this machine: fetched once, kept, named by content, clear offline."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from safetensors.torch import save_file
from tests.helpers.hub_server import start_hub
from tests.helpers.warm import run_warm

from levelfield import models
from levelfield.core.errors import RunError, UsageError

TRY = """
import torch
from levelfield import models
from levelfield.core.errors import LevelfieldError
try:
    trunk = models.create_trunk("hf-hub:owner/tiny", weights="hub")
    print("source", models.registry["hf-hub:owner/tiny"].source)
    print("sum", float(sum(value.double().abs().sum() for value in trunk.state_dict().values())))
    print("features", trunk.num_features, trunk(torch.zeros(1, 3, 64, 64)).shape[1])
except LevelfieldError as error:
    print("error", error)
"""


def put_model(root: Path, *, seed: int) -> float:
    """A small timm network on the hub; the sum of its weights."""
    home = root / "models" / "owner" / "tiny"
    home.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    network = timm.create_model("resnet10t", num_classes=0)
    save_file(network.state_dict(), home / "model.safetensors")
    config = {"architecture": "resnet10t", "num_classes": 0, "pretrained_cfg": {"num_classes": 0}}
    (home / "config.json").write_text(json.dumps(config))
    return float(sum(value.double().abs().sum() for value in network.state_dict().values()))


def ask(address: str, home: Path) -> dict[str, str]:
    settings = {
        "HF_ENDPOINT": address,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_ETAG_TIMEOUT": "2",
    }
    done = run_warm(["-c", TRY], env=os.environ | settings, forget=("huggingface_hub", "timm"))
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


@pytest.mark.slow
def test_a_network_of_the_hub_is_fetched_kept_and_named_by_its_commit(tmp_path: Path) -> None:
    total = put_model(tmp_path / "hub", seed=0)
    with start_hub(tmp_path / "hub") as (address, asked):
        first = ask(address, tmp_path / "home")
        assert float(first["sum"]) == pytest.approx(total)
        assert first["features"] == "512 512"
        assert any("model.safetensors" in request for request in asked)
        replaced = put_model(tmp_path / "hub", seed=1)
        second = ask(address, tmp_path / "home")
        assert float(second["sum"]) == pytest.approx(replaced)
        assert second["source"] != first["source"], "other weights under the same name are another trunk"
    kept = ask(address, tmp_path / "home")  # the hub is down
    assert kept == second
    nothing = ask(address, tmp_path / "empty")
    assert nothing["error"].startswith("trunk hf-hub:owner/tiny cannot be reached")


HUBCONF = """
import torch
from helpers import WIDTH

def net(pretrained=False, classes=0, url={url!r}):
    layers = [torch.nn.Conv2d(3, WIDTH, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(WIDTH, 5) if classes else torch.nn.Identity())
    if pretrained:
        network.load_state_dict(torch.hub.load_state_dict_from_url(url, check_hash=False), strict=False)
    return network

def words(pretrained=False):
    return "no network"

def maps(pretrained=False):
    return torch.nn.Conv2d(3, 6, 3)
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    folder = tmp_path / "their-repository"
    folder.mkdir()
    (folder / "helpers.py").write_text("WIDTH = 7\n")
    return folder


@pytest.mark.slow
def test_a_network_of_torch_hub_with_weights_from_a_server(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "hub" / "plain").mkdir(parents=True)
    state = {"0.weight": torch.full((7, 3, 3, 3), 0.5), "0.bias": torch.arange(7.0)}
    torch.save(state, tmp_path / "hub" / "plain" / "net.pth")
    with start_hub(tmp_path / "hub") as (address, _):
        (repository / "hubconf.py").write_text(HUBCONF.format(url=f"{address}/plain/net.pth"))
        trunk = models.create_trunk(f"hub:{repository}/net", weights="hub", image_size=32)
    assert (trunk.num_features, trunk.spatial) == (7, False)
    assert torch.equal(trunk.network.state_dict()["0.bias"], torch.arange(7.0))
    again = models.create_trunk(f"hub:{repository}/net", weights="hub", image_size=32)  # from torch's cache
    assert torch.equal(again.network.state_dict()["0.bias"], torch.arange(7.0))
    without = models.create_trunk(f"hub:{repository}/net", classes=5, without="3", image_size=32)
    assert without.num_features == 7
    assert models.create_trunk(f"hub:{repository}/maps", image_size=32).spatial


def test_edited_code_is_another_trunk(repository: Path) -> None:
    (repository / "hubconf.py").write_text(HUBCONF.format(url=""))
    before = models.registry[f"hub:{repository}/net"].source
    (repository / "helpers.py").write_text("WIDTH = 8\n")
    assert models.registry[f"hub:{repository}/net"].source != before


def test_what_is_wrong_with_a_hub_is_told_in_a_line(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = "http://127.0.0.1:9/net.pth"
    (repository / "hubconf.py").write_text(HUBCONF.format(url=dead))
    with pytest.raises(RunError, match="published weights cannot be downloaded"):
        models.create_trunk(f"hub:{repository}/net", weights="hub", image_size=32)
    mistakes: list[tuple[str, dict[str, Any], str]] = [
        ("net", {"color": 1}, "cannot be created"),
        ("nett", {}, "cannot be created"),
        ("words", {}, "not a network"),
        ("net", {"without": "fc"}, 'no layer "fc"'),
    ]
    for name, options, message in mistakes:
        with pytest.raises(UsageError, match=message):
            models.create_trunk(f"hub:{repository}/{name}", image_size=32, **options)
    with pytest.raises(UsageError, match="does not name an entry"):
        models.create_trunk("hub:net")
    with pytest.raises(UsageError, match=r"hubconf\.py does not exist"):
        models.create_trunk(f"hub:{repository.parent}/nowhere/net")
    with pytest.raises(UsageError, match="use weights: imagenet"):
        models.create_trunk("resnet50", weights="hub")

    def offline(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(torch.hub, "list", offline)
    with pytest.raises(RunError, match=r"github\.com/owner/name cannot be reached .*no route to host"):
        models.create_trunk("hub:owner/name/net")


def test_a_network_without_its_prefix_is_suggested_with_it() -> None:
    with pytest.raises(UsageError, match='unknown trunk "resnet18"; did you mean "timm:resnet18"'):
        models.registry["resnet18"]
