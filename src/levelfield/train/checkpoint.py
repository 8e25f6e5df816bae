"""Checkpoints of a run: its best weights, and the state from which it resumes."""

from __future__ import annotations

import io
import logging
import pickle
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from levelfield.core import files
from levelfield.core.errors import RunError
from levelfield.records import STATE_FILE

WEIGHTS_FILE = "best.safetensors"
_UNREADABLE = (
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    KeyError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
)


def save_weights(directory: Path, tensors: dict[str, Tensor]) -> None:
    """Save the best weights of the run in ``directory``."""
    files.require_directory(directory)
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    files.write_bytes(directory / WEIGHTS_FILE, save(contiguous))


def has_weights(directory: Path) -> bool:
    """Return True if ``directory`` has the best weights of its run; shared records may lack them."""
    return (directory / WEIGHTS_FILE).exists()


def delete_weights(directory: Path) -> None:
    """Delete the best weights of a run that nothing will read again; a file that cannot be deleted stays."""
    with suppress(OSError):
        (directory / WEIGHTS_FILE).unlink(missing_ok=True)


def load_best_weights(directory: Path) -> dict[str, Tensor]:
    """Return the best weights of the run in ``directory``; raise RunError if missing or damaged."""
    file = directory / WEIGHTS_FILE
    remedy = f"delete the directory {directory} and give the same command again"
    if not file.exists():
        raise RunError(f"{file} is missing; {remedy}")
    try:
        files.check_is_file(file)
        return load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise RunError(f"{file} is damaged ({error}); {remedy}") from error


def save_state(directory: Path, state: dict[str, Any]) -> None:
    """Save the state from which the run in ``directory`` resumes."""
    files.require_directory(directory)
    buffer = io.BytesIO()
    torch.save(state, buffer)
    files.write_bytes(directory / STATE_FILE, buffer.getvalue())


def load_state(directory: Path) -> dict[str, Any] | None:
    """Return the last saved state; None if there is none.

    A damaged state is renamed. The run then starts again, which takes time but changes no bit.
    """
    file = directory / STATE_FILE
    if not file.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        renamed = file.with_suffix(".damaged")
        file.replace(renamed)
        logging.getLogger("levelfield").warning(
            "%s is damaged (%s); it was renamed to %s, and the run starts from the beginning",
            file,
            type(error).__name__,
            renamed.name,
        )
        return None
    return state


def delete_state(directory: Path) -> None:
    """Delete the state of a finished run."""
    (directory / STATE_FILE).unlink(missing_ok=True)
