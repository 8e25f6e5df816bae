"""ONNX export, for servers and phones without PyTorch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from levelfield.core.errors import RunError, UsageError
from levelfield.core.files import atomic_write, wrap_disk_errors
from levelfield.retrieval.embedders._embedder import ImageEmbedder

TOLERANCE = 1e-4


def export_onnx(embedder: ImageEmbedder, file: str | Path) -> float:
    """Write the model as one ONNX file and check it against PyTorch.

    Input ``images``: uint8 pixels from 0 to 255, B x C x h x w, RGB, resized and cropped as the metadata of
    the file say. onnxruntime rejects floats, so values of another range cannot pass unnoticed. Output
    ``vectors``: float32, B x D, unit length. The graph includes the conversion and normalization of pixels,
    the mirrored view, concatenation and whitening.

    Args:
        embedder: Embedder from :func:`levelfield.load_embedder`.
        file: Output file.

    Returns:
        Largest absolute difference between the vectors of onnxruntime and PyTorch on noise; at most 1e-4.

    Raises:
        UsageError: The extra ``onnx`` is not installed, or the model has several scales.
        RunError: The vectors differ by more than 1e-4; nothing is written.
    """
    try:
        import onnx
        import onnxruntime  # noqa: F401 - is it installed?
        import onnxscript  # noqa: F401 - torch imports it later, with a worse error
    except ImportError as error:
        raise UsageError(f"ONNX needs {error.name}; run pip install 'levelfield[onnx]'") from error
    if set(embedder.card.preprocessing.scales) != {1.0}:
        raise UsageError("ONNX supports one scale only; write the model with scales (1.0,) and export again")
    example = _example_batch(embedder)
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
        raise RunError("PyTorch could not convert the model to ONNX; use the model directory itself")
    target = Path(file)
    with wrap_disk_errors(target), atomic_write(target) as temporary:
        proto = program.model_proto
        onnx.helper.set_model_props(proto, describe_input(embedder, example))
        onnx.save(proto, str(temporary))
        difference = _largest_difference(embedder, temporary, example)
        if difference > TOLERANCE:
            raise RunError(
                f"onnxruntime's vectors differ from PyTorch's by {difference:.1e} (more than {TOLERANCE:g}); "
                "nothing was written; use the model directory itself"
            )
    return difference


def describe_input(embedder: ImageEmbedder, example: Tensor) -> dict[str, str]:
    """Return the metadata of the file: how an image becomes its input."""
    card = embedder.card
    _, channels, height, width = example.shape
    return {
        "levelfield.input": f"images: uint8, 0 to 255, batch x {channels} x {height} x {width}, "
        + ("RGB" if channels == 3 else "gray" if channels == 1 else f"{channels} channels"),
        "levelfield.preprocessing": card.preprocessing.model_dump_json(),
        "levelfield.resizing": "bilinear with antialiasing, as Pillow's BILINEAR",
        "levelfield.output": f"vectors: float32, batch x {card.size}, unit length",
        "levelfield.identity": card.identity,
        "levelfield.threshold": "" if card.threshold is None else repr(card.threshold.similarity),
    }


def _example_batch(embedder: ImageEmbedder) -> Tensor:
    side = 512  # any size: preprocessing resizes to the input size of the network
    image = torch.zeros(3, side, side, dtype=torch.uint8)
    shape = embedder.preprocess(image).shape
    return torch.randint(256, (2, *shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def _largest_difference(embedder: ImageEmbedder, file: Path, example: Tensor) -> float:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    worst = 0.0
    for batch in (example, example[:1], example.repeat(2, 1, 1, 1).flip(2)[:3]):
        (got,) = session.run(["vectors"], {"images": batch.numpy()})
        with torch.inference_mode():
            wanted = embedder(batch).numpy()
        worst = max(worst, float(np.abs(got - wanted).max()))
    return worst
