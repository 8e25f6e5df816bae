"""The tensors of a run: its best weights, and the state from which it goes on after a kill."""

from __future__ import annotations

import io
import logging
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from levelfield import files
from levelfield.errors import RunError
from levelfield.records import STATE_FILE

WEIGHTS = "best.safetensors"
_UNREADABLE = (
    RuntimeError,
    EOFError,
    OSError,
    ValueError,
    KeyError,
    pickle.UnpicklingError,
    zipfile.BadZipFile,
)


def save_weights(folder: Path, tensors: dict[str, Tensor]) -> None:
    """Keep the best weights of the run in ``folder``."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    files.write_bytes(folder / WEIGHTS, save(whole))


def has_weights(folder: Path) -> bool:
    """Whether the best weights of the run in ``folder`` are there; records may be handed on without them."""
    return (folder / WEIGHTS).exists()


def load_best_weights(folder: Path) -> dict[str, Tensor]:
    """The best weights of the run in ``folder``."""
    file = folder / WEIGHTS
    remedy = f"delete the folder {folder} and give the same command again"
    if not file.exists():
        raise RunError(f"{file} is missing; {remedy}")
    try:
        return load_file(file)
    except (SafetensorError, OSError, ValueError) as error:
        raise RunError(f"{file} is damaged ({error}); {remedy}") from error


def save_state(folder: Path, state: dict[str, Any]) -> None:
    """Keep what the run in ``folder`` needs to go on after a kill."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    files.write_bytes(folder / STATE_FILE, buffer.getvalue())


def load_state(folder: Path) -> dict[str, Any] | None:
    """The last saved state, or None if there is none.

    A damaged one is set aside: the run then starts again, which takes time but changes no bit.
    """
    file = folder / STATE_FILE
    if not file.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    except _UNREADABLE as error:
        aside = file.with_suffix(".damaged")
        file.replace(aside)
        logging.getLogger("levelfield").warning(
            "%s is damaged (%s); it is now %s, and the run starts again from its beginning",
            file,
            type(error).__name__,
            aside.name,
        )
        return None
    return state


def drop_state(folder: Path) -> None:
    """Forget the state of a finished run."""
    (folder / STATE_FILE).unlink(missing_ok=True)
