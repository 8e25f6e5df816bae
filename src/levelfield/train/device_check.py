"""Checks of a device against the CPU: losses, miners, exact resume, input pipeline."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from levelfield import losses, miners
from levelfield.core.registry import Registry
from levelfield.data import Rows
from levelfield.records import RunDirectory, RunSpec
from levelfield.train._inputs import Inputs, Stream
from levelfield.train._loop import FoldData, train_run
from levelfield.train._setup import Resources, build_embedder, create_inputs, load_development_view

CLASSES, SAMPLES, SIZE = 8, 4, 32
LENGTH = 12.0  # of embeddings for losses whose input has a length
VALUE_TOLERANCE, GRADIENT_TOLERANCE = 1e-4, 1e-3  # relative; float32 sums in another order
BATCHES, WARM_UP = 20, 4  # loaders start during the first ones


@dataclass(frozen=True)
class DeviceComparison:
    """Loss or miner on the device and on the CPU.

    Attributes:
        name: Registered name.
        value_error: Difference of the values, relative to the value; for a miner, the share of other tuples.
        gradient_error: Largest difference of the gradients of embeddings or parameters, relative to the
            largest gradient of these.
        problem: The error that was raised; empty if none.
    """

    name: str
    value_error: float = 0.0
    gradient_error: float = 0.0
    problem: str = ""

    @property
    def is_good(self) -> bool:
        """True if both agree within the tolerance."""
        close = self.value_error <= VALUE_TOLERANCE and self.gradient_error <= GRADIENT_TOLERANCE
        return close and not self.problem


def compare_losses(device: str) -> Iterator[DeviceComparison]:
    """Yield every loss of this package, at its defaults, on one batch."""
    for name in _own_names(losses.registry):
        try:
            here, there = _loss_and_gradients(name, "cpu"), _loss_and_gradients(name, device)
        except Exception as error:  # any error of a kernel is a result of this check
            yield DeviceComparison(name, problem=f"{type(error).__name__}: {error}"[:200])
            continue
        if not all(bool(torch.isfinite(part).all()) for part in (there[0], *there[1])):
            yield DeviceComparison(name, problem="the loss or its gradient is not finite")
            continue
        errors = [
            float((one - other).abs().max()) / max(float(one.abs().max()), 1e-6)
            for one, other in zip(here[1], there[1], strict=True)
        ]
        value_error = abs(float(here[0] - there[0])) / max(abs(float(here[0])), 1e-3)
        yield DeviceComparison(name, value_error, max(errors))


def compare_miners(device: str) -> Iterator[DeviceComparison]:
    """Yield every miner of this package, at its defaults and with one seed, on one batch."""
    for name in _own_names(miners.registry):
        try:
            here, there = _mined(name, "cpu"), _mined(name, device)
        except Exception as error:
            yield DeviceComparison(name, problem=f"{type(error).__name__}: {error}"[:200])
            continue
        every = here | there
        yield DeviceComparison(name, len(here ^ there) / len(every) if every else 0.0)


def _own_names(registry: Registry[Any, Any]) -> list[str]:
    """Return the names of this package's plug-ins; others may be loaded."""
    return [name for name in registry.names() if registry[name].source is None]


def resumes_exactly(spec: RunSpec, resources: Resources) -> bool:
    """Return True if a run that is interrupted after an epoch ends with the same bits as another."""
    with TemporaryDirectory() as folder:
        whole, cut = Path(folder, "whole"), Path(folder, "cut")
        _train(spec, resources, whole)
        with suppress(_InterruptedError):
            _train(spec, resources, cut, stop=True)
        _train(spec, resources, cut)
        names = ("best.safetensors", "epochs.jsonl", "result.json")
        return all((whole / name).read_bytes() == (cut / name).read_bytes() for name in names)


def measure_inputs(spec: RunSpec, resources: Resources, *, step: float) -> tuple[float, float]:
    """Return images per second of the input pipeline, and the share of a step that waits for it.

    Args:
        spec: Run whose images are read.
        resources: Paths, and the number of loaders.
        step: Seconds of one training step, without waiting.
    """
    view = load_development_view(spec, resources)
    rows = view.folds[spec.fold].train
    size = min(spec.batch.size, len(rows))
    plan = [rows[(size * k) % (len(rows) - size + 1) :][:size] for k in range(BATCHES)]
    inputs = create_inputs(view.dataset, spec, resources, train=True)
    start = time.monotonic()
    for number, batch in enumerate(inputs.train(plan, _stream(spec))):
        batch.to(resources.device)
        if number + 1 == WARM_UP:
            start = time.monotonic()
    seconds = (time.monotonic() - start) / (BATCHES - WARM_UP)
    return size / seconds, max(0.0, seconds - step) / max(seconds, step)


def _stream(spec: RunSpec) -> Stream:
    return ("device check", spec.seed)


class _InterruptedError(Exception):
    """Raised by inputs that stop a run."""


class _StoppingInputs:
    """Inputs that end with an error in the second epoch."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs, self._epochs = inputs, 0

    def train(self, plan: Iterable[Rows], stream: Stream, *, ahead: bool = True) -> Iterator[Tensor]:
        self._epochs += 1
        if self._epochs > 1:
            raise _InterruptedError
        return self._inputs.train(plan, stream, ahead=ahead)

    def evaluate(self, plan: Iterable[Rows]) -> Iterator[Tensor]:
        return self._inputs.evaluate(plan)


def _train(spec: RunSpec, resources: Resources, directory: Path, *, stop: bool = False) -> None:
    view = load_development_view(spec, resources)
    fold = view.folds[spec.fold]
    inputs: Any = create_inputs(view.dataset, spec, resources, train=True)
    if stop:
        inputs = _StoppingInputs(inputs)  # it has the two methods that a run calls
    data = FoldData(
        inputs=inputs,
        labels=view.dataset.labels,
        train=fold.train,
        validation=fold.validation,
    )
    train_run(spec, data, build_embedder(spec, resources), RunDirectory(directory), device=resources.device)


def _batch(device: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(CLASSES).repeat_interleave(SAMPLES)
    centers = torch.randn(CLASSES, SIZE, generator=generator)
    vectors = centers[labels] + torch.randn(len(labels), SIZE, generator=generator)
    return torch.nn.functional.normalize(vectors).to(device), labels.to(device)


def _loss_and_gradients(name: str, device: str) -> tuple[Tensor, list[Tensor]]:
    """Return the value, and the gradients of the embeddings and of the loss's parameters."""
    given = {"num_classes": CLASSES, "embedding_size": SIZE, "seed": 0}
    known = losses.registry[name].parameters
    loss = losses.create(name, **{key: value for key, value in given.items() if key in known}).to(device)
    vectors, labels = _batch(device)
    if losses.registry[name].card.embedding == "raw":
        vectors = LENGTH * vectors
    vectors.requires_grad_()
    value = loss(vectors, labels)
    wanted = [vectors, *loss.parameters()]
    gradients = torch.autograd.grad(value, wanted, allow_unused=True)
    return value.detach().cpu(), [slope.cpu() for slope in gradients if slope is not None]


def _mined(name: str, device: str) -> set[tuple[int, ...]]:
    miner = miners.create(name)
    miners.reseed(miner, 0)
    mined = miner(*_batch(device))
    indices = [part.cpu().tolist() for part in mined.indices]
    if isinstance(mined, miners.Triplets):
        return set(zip(*indices, strict=True))
    positive, negative = zip(*indices[:2], strict=True), zip(*indices[2:], strict=True)
    return {(0, *pair) for pair in positive} | {(1, *pair) for pair in negative}
