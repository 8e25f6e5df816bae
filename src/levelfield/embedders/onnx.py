"""A model as ONNX, for servers and phones without PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from levelfield.embedders._embedder import PictureEmbedder
from levelfield.errors import RunError, UsageError
from levelfield.files import disk_errors, replacing

TOLERANCE = 1e-4


def export_onnx(embedder: PictureEmbedder, file: str | Path) -> float:
    """Write the model as one ONNX file and check it against PyTorch.

    The file takes ``images`` (float32 in 0..1, B x C x h x w, RGB, cropped as ``model.json`` says) and gives
    ``vectors`` (float32, B x D, unit length). Normalisation of pixels, concatenation, the mirrored view
    and whitening are inside.

    Args:
        embedder: From :func:`levelfield.load_embedder`.
        file: Where to write.

    Returns:
        The largest difference between a number of onnxruntime's and PyTorch's, on noise; at most 1e-4.

    Raises:
        UsageError: The extra ``onnx`` is not installed, or the model has several scales.
        RunError: The two differ by more; nothing is written.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise UsageError(f"ONNX needs {error.name}; run pip install 'levelfield[onnx]'") from error
    if set(embedder.card.preprocessing.scales) != {1.0}:
        raise UsageError("ONNX holds one scale only; write the model with scales (1.0,) and export again")
    example = _example(embedder)
    program = torch.onnx.export(
        embedder,
        (example,),
        input_names=["images"],
        output_names=["vectors"],
        dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
        dynamo=True,
        verbose=False,
    )
    if program is None:
        raise RunError("PyTorch could not translate the model to ONNX; use the model folder itself")
    target = Path(file)
    with disk_errors(target), replacing(target) as temporary:
        onnx.save(program.model_proto, str(temporary))
        difference = _difference(embedder, temporary, example)
        if difference > TOLERANCE:
            raise RunError(
                f"onnxruntime's vectors differ from PyTorch's by {difference:.1e} (more than {TOLERANCE:g}); "
                "nothing was written: use the model folder itself"
            )
    return difference


def _example(embedder: PictureEmbedder) -> Tensor:
    side = 512  # any picture: the preprocessing brings it to the size that the network wants
    picture = torch.zeros(3, side, side, dtype=torch.uint8)
    shape = embedder.preprocess(picture).shape
    return torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))


def _difference(embedder: PictureEmbedder, file: Path, example: Tensor) -> float:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    worst = 0.0
    for batch in (example, example[:1], example.repeat(2, 1, 1, 1).flip(2)[:3]):
        (got,) = session.run(["vectors"], {"images": batch.numpy()})
        with torch.inference_mode():
            wanted = embedder(batch).numpy()
        worst = max(worst, float(np.abs(got - wanted).max()))
    return worst
