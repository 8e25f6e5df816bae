"""Training loop of one run: train on a fold, evaluate on its validation classes, keep the best weights.

All random choices of epoch e come from streams named by the run's seed and e (see ``seeds``). The state that
is saved after an evaluation therefore holds only weights, optimizer and counters; a run that is killed
resumes from it and ends with the same bits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import tee
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from levelfield import losses, metrics, models, samplers
from levelfield.core.errors import RunError
from levelfield.core.processes import report_progress
from levelfield.core.registry import loaded_plugins
from levelfield.core.seeds import seed_for
from levelfield.data import Rows
from levelfield.methods import LOSS_LR, part_options
from levelfield.records import EpochLine, Provenance, RunDirectory, RunResult, RunSpec, environment, now
from levelfield.samplers.memory_bank import MemoryBank
from levelfield.train import checkpoint
from levelfield.train._autocast import Autocast
from levelfield.train._chunks import ChunkedPass
from levelfield.train._collapse import diagnose_collapse
from levelfield.train._devices import to_device
from levelfield.train._early_stopping import EarlyStopping
from levelfield.train._embed import describe_unusable, embed
from levelfield.train._head_init import initialize_head, start_key
from levelfield.train._inputs import Inputs
from levelfield.train._light_optimizer import unmarked_methods
from levelfield.train._objective import NotFiniteError, Objective
from levelfield.train._optim import create_optimizer, set_rates
from levelfield.train._ranks import average_gradients, broadcast_from_rank_zero, rank, shard

VALIDATION_METRICS = ("precision_at_1", "r_precision", "map_at_r")
FULL_STATE_MODES = ("finetune", "tail")  # all tensors of the network may change

Validation: TypeAlias = tuple[dict[str, float], float | str]
_starts: dict[tuple[str, str, int, str, int], Validation] = {}  # a few numbers for each fold


class DivergedError(RunError):
    """Error of a run whose loss became infinite or NaN."""


@dataclass(frozen=True)
class FoldData:
    """Data of a run: inputs and labels of the development view, and the rows of the fold."""

    inputs: Inputs
    labels: Rows
    train: Rows
    validation: Rows


def train_run(
    spec: RunSpec, data: FoldData, embedder: models.Embedder, directory: RunDirectory, *, device: str = "cpu"
) -> RunResult:
    """Train a run and return its result; resume it if it was interrupted, skip it if it is finished.

    Under torchrun all ranks call it; only rank zero writes.
    """
    if rank() > 0:
        return _train(_Run(spec, data, embedder, directory, device))
    with directory.lock():
        directory.begin(spec)
        done = directory.result()
        if done is not None:
            return done
        started = time.monotonic()
        run = _Run(spec, data, embedder, directory, device)
        result = _train(run)
        seconds = run.seconds_before + time.monotonic() - started
        provenance = Provenance(
            **environment().model_dump(),
            threads=torch.get_num_threads(),
            device=device,
            plugins=loaded_plugins(),
            finished=now(),
            seconds=round(seconds, 3),
        )
        directory.finish(result, provenance)
        checkpoint.delete_state(directory.path)
        return result


def _train(run: _Run) -> RunResult:
    try:
        return run.train()
    except DivergedError as error:
        return RunResult(status="diverged", reason=str(error), last_epoch=run.epoch)


class _Run:
    """Mutable state of a running run."""

    def __init__(
        self, spec: RunSpec, data: FoldData, embedder: models.Embedder, directory: RunDirectory, device: str
    ) -> None:
        self.spec, self.data, self.directory, self.device = spec, data, directory, device
        self.embedder = embedder.to(device)
        if spec.trunk.mode not in ("frozen", "tail"):  # the layout of images; convolutions are faster on it
            self.embedder.to(memory_format=torch.channels_last)
        self.frozen = spec.trunk.mode == "frozen"
        # A frozen trunk is never called, and switching the mode of its many layers takes time.
        self.trained: nn.Module = self.embedder.head if self.frozen else self.embedder
        self.labels, num_classes = _dense_labels(data.labels[data.train])
        self.objective = Objective(
            spec,
            num_classes=num_classes,
            embedding_size=embedder.size,
            feature_size=embedder.trunk.num_features,
        ).to(device)
        self.sampler = _create_sampler(spec, self.labels)
        self.bank = _attach_bank(self.sampler, len(self.labels), embedder.size)
        loss_lr = float(spec.hyperparameters.get(LOSS_LR, losses.registry[spec.recipe.loss].card.loss_lr))
        with unmarked_methods():
            self.optimizer = create_optimizer(
                spec.optimizer,
                embedder=self.embedder,
                loss=self.objective.loss,
                loss_lr=loss_lr,
                train_trunk=not self.frozen,
                others=self.objective.parameter_groups(loss_lr=loss_lr),
            )
        self.autocast = Autocast(spec.training.precision, device)
        self.forward = torch.compile(embedder) if spec.training.compile else embedder
        self.early_stopping = EarlyStopping(
            spec.training.patience, metrics.selection_sign(spec.training.metric)
        )
        self.best: dict[str, float] = {}
        self.epoch = 0
        self.seconds_before = 0.0
        self._started = time.monotonic()

    def train(self) -> RunResult:
        """Train until early stopping or the last epoch."""
        training = self.spec.training
        if not self._resume():
            initialize_head(self.spec, self.embedder, self.data.inputs, self.data.train, device=self.device)
            self._evaluate(mean_loss=None)
        while not self._is_over():
            self.epoch += 1
            report_progress(self.epoch, training.max_epochs)
            mean_loss = self._train_epoch()
            if self.epoch % training.evaluate_every == 0 or self.epoch == training.max_epochs:
                self._evaluate(mean_loss)
        return RunResult(
            status="complete",
            best_epoch=self.early_stopping.best_epoch,
            last_epoch=self.epoch,
            validation=self.best,
            collapse=self._diagnose_collapse() if rank() == 0 else "",
        )

    def _diagnose_collapse(self) -> str:
        options = self.spec.hyperparameters.items()
        margins = {name: float(value) for name, value in options if "margin" in name and value}
        metric = self.spec.training.metric
        sign = metrics.selection_sign(metric)
        return diagnose_collapse(self.directory.log(), metric, sign=sign, margins=margins)

    def _train_epoch(self) -> float:
        training = self.spec.training
        self.trained.train()
        set_rates(self.optimizer, self.epoch, schedule=self.spec.schedule, training=training)
        self.objective.start_epoch(self.epoch)
        total, steps = 0.0, 0
        with _global_seed(seed_for(self.spec.seed, "global", self.epoch), self.device):
            for rows, batch in self._batches():
                labels = to_device(torch.from_numpy(self.labels[shard(rows)]), self.device)
                total += self._backward(rows, to_device(batch, self.device), labels)
                steps += 1
                if steps % training.accumulate == 0:
                    self._update()
            if steps % training.accumulate:  # gradients are not in the state, so none outlives its epoch
                self._update()
        return total / max(steps, 1)

    def _batches(self) -> Iterator[tuple[Rows, Tensor]]:
        """Return the batches of the epoch: the rows of all ranks, and the inputs of this rank."""
        plan, ahead = tee(self.sampler.epoch(self.epoch, self.spec.training.iterations_per_epoch))
        own = (self.data.train[shard(rows)] for rows in ahead)
        # Rank zero has the stream of a run on one process.
        stream = (self.spec.seed, "augment", self.epoch, *((rank(),) if rank() else ()))
        return zip(plan, self.data.inputs.train(own, stream, ahead=self.bank is None), strict=True)

    def _backward(self, rows: Rows, inputs: Tensor, labels: Tensor) -> float:
        """Compute the gradients of one batch and return its loss."""
        with self.autocast.forward():
            chunks = self._chunked(inputs)
            whole = None if chunks is None else chunks.embeddings
            try:
                value, embeddings = self.objective(self.forward, inputs, labels, whole)
            except NotFiniteError as error:
                raise DivergedError(f"{error} in epoch {self.epoch}") from error
        number = float(value.detach())
        if not math.isfinite(number):
            raise DivergedError(f"loss is {number} in epoch {self.epoch}")
        accumulate = self.spec.training.accumulate
        self.autocast.backward(value if accumulate == 1 else value / accumulate)
        if chunks is not None:
            with self.autocast.forward():
                chunks.backward()
        if self.bank is not None:
            self.bank.update(rows, embeddings.detach().float().cpu())
        return number

    def _chunked(self, inputs: Tensor) -> ChunkedPass | None:
        """Return the chunked pass of a batch that is larger than ``training.chunk``; else None."""
        size = self.spec.training.chunk
        if size is None or size >= len(inputs):
            return None
        forward = self.embedder.project if self.frozen else self.forward
        return ChunkedPass(forward, inputs, size=size)

    def _update(self) -> None:
        """Take one optimizer step on the accumulated gradients."""
        average_gradients(self.optimizer)
        self.autocast.step(self.optimizer, clip_norm=self.spec.training.clip_norm)
        for group in self.optimizer.param_groups:  # zero_grad() is slow for a small head
            for parameter in group["params"]:
                parameter.grad = None

    def _evaluate(self, mean_loss: float | None) -> None:
        """Evaluate on the validation classes, append to the log, save the best weights and the state."""
        scores, alike = broadcast_from_rank_zero(self._validate() if rank() == 0 else ({}, 0.0))
        if isinstance(alike, str):
            raise DivergedError(f"{alike}, in the validation of epoch {self.epoch}")
        if not all(math.isfinite(value) for value in scores.values()):
            raise DivergedError(f"validation scores are not finite in epoch {self.epoch}")
        best = self.early_stopping.update(self.epoch, scores[self.spec.training.metric])
        self.best = scores if best else self.best
        if rank() > 0:
            return
        self.directory.append_log(EpochLine(epoch=self.epoch, loss=mean_loss, scores=scores, alike=alike))
        if best:
            weights = trained_state_dict(self.embedder, mode=self.spec.trunk.mode)
            checkpoint.save_weights(self.directory.path, weights)
        if not self._is_over():  # the result follows at once, and the state would be deleted
            checkpoint.save_state(self.directory.path, self._state())

    def _is_over(self) -> bool:
        return self.epoch >= self.spec.training.max_epochs or self.early_stopping.should_stop(self.epoch)

    def _validate(self) -> Validation:
        """Return the scores on the validation classes; those before training are computed once a process."""
        start = start_key(self.spec, self.embedder, self.data.train) if self.epoch == 0 else None
        if start is None:
            return self._score_validation()
        training = self.spec.training
        key = (
            start,
            self.spec.metric.model_dump_json(),
            training.eval_batch_size,
            self.device,
            torch.get_num_threads(),
        )
        if key not in _starts:
            _starts[key] = self._score_validation()
        scores, alike = _starts[key]
        return dict(scores), alike

    def _score_validation(self) -> Validation:
        """Return the scores on the validation classes, and the mean cosine between embeddings.

        Where there is no score, NaN and the reason.
        """
        self.trained.eval()
        rows = self.data.validation
        forward = self.embedder.project if self.frozen else self.embedder
        embeddings = embed(
            forward, self.data.inputs, rows, batch_size=self.spec.training.eval_batch_size, device=self.device
        )
        if self.spec.head.normalize is False:
            embeddings = torch.nn.functional.normalize(embeddings)
        if unusable := describe_unusable(embeddings):
            return {self.spec.training.metric: math.nan}, unusable
        wanted = tuple(dict.fromkeys((*VALIDATION_METRICS, self.spec.training.metric)))
        scores = metrics.evaluate(embeddings, torch.from_numpy(self.data.labels[rows]), metrics=wanted)
        # the squared length of their mean is the mean cosine of two unit vectors
        alike = float(torch.nn.functional.normalize(embeddings).mean(dim=0).square().sum())
        return {name: float(scores[name]) for name in wanted}, round(alike, 6)

    def _state(self) -> dict[str, Any]:
        with unmarked_methods():
            optimizer = self.optimizer.state_dict()
        return {
            "epoch": self.epoch,
            "embedder": trained_state_dict(self.embedder, mode=self.spec.trunk.mode),
            "objective": self.objective.state(),
            "bank": {} if self.bank is None else self.bank.state_dict(),
            "scaler": self.autocast.state(),
            "optimizer": optimizer,
            "best": dict(self.best),
            "best_epoch": self.early_stopping.best_epoch,
            "best_score": self.early_stopping.best_score,
            "seconds": self.seconds_before + time.monotonic() - self._started,
        }

    def _resume(self) -> bool:
        """Load the last saved state; return False if there is none."""
        state = broadcast_from_rank_zero(checkpoint.load_state(self.directory.path) if rank() == 0 else None)
        if rank() == 0:
            self.directory.rewind_log(-1 if state is None else state["epoch"])
        if state is None:
            return False
        self.epoch = state["epoch"]
        load_trained_state_dict(self.embedder, state["embedder"], mode=self.spec.trunk.mode)
        self.objective.load_state(state["objective"])
        if self.bank is not None:
            self.bank.load_state_dict(state["bank"])
        self.autocast.load_state(state["scaler"])
        with unmarked_methods():
            self.optimizer.load_state_dict(state["optimizer"])
        self.best = state["best"]
        self.early_stopping.best_epoch, self.early_stopping.best_score = (
            state["best_epoch"],
            state["best_score"],
        )
        self.seconds_before = state["seconds"]
        return True


def trained_state_dict(embedder: models.Embedder, *, mode: str) -> dict[str, Tensor]:
    """Return the tensors that a run may change: the state dict without frozen tensors of the trunk."""
    if mode == "frozen":
        parts = {name: part for name, part in embedder.named_children() if name != "trunk"}
        return {f"{name}.{key}": v for name, part in parts.items() for key, v in part.state_dict().items()}
    state: dict[str, Tensor] = embedder.state_dict()
    if mode in FULL_STATE_MODES:
        return state
    kept = {name for name, parameter in embedder.named_parameters() if parameter.requires_grad}
    kept |= {name for name, _ in embedder.named_buffers()}  # statistics of BatchNorm layers
    return {name: v for name, v in state.items() if name in kept or not name.startswith("trunk.")}


def load_trained_state_dict(embedder: models.Embedder, state: dict[str, Tensor], *, mode: str) -> None:
    """Load the tensors from :func:`trained_state_dict`."""
    missing = trained_state_dict(embedder, mode=mode).keys() - state.keys()
    if missing:
        raise RunError(
            f"the saved weights lack {len(missing)} tensors, such as {min(missing)}; delete the run"
        )
    embedder.load_state_dict(state, strict=mode in FULL_STATE_MODES)


def _dense_labels(labels: Rows) -> tuple[Rows, int]:
    """Return the labels renumbered 0..C-1, as classification losses need them, and C."""
    classes, dense = np.unique(labels, return_inverse=True)
    return dense.astype(np.int64), len(classes)


def _attach_bank(sampler: samplers.BatchSampler, samples: int, size: int) -> MemoryBank | None:
    """Return a memory bank for samplers that need one; else None."""
    if not sampler.needs_bank:
        return None
    bank = MemoryBank(samples, size)
    sampler.attach(bank)  # type: ignore[attr-defined]  # samplers that need a bank have it
    return bank


def _create_sampler(spec: RunSpec, labels: Rows) -> samplers.BatchSampler:
    options: dict[str, Any] = dict(part_options(spec.hyperparameters, "sampler"))
    if "samples_per_class" in samplers.registry[spec.recipe.sampler].parameters:
        options["samples_per_class"] = spec.recipe.samples_per_class
    seed = seed_for(spec.seed, "batches")
    return samplers.create(spec.recipe.sampler, labels, batch_size=spec.batch.size, seed=seed, **options)


@contextmanager
def _global_seed(seed: int, device: str) -> Iterator[None]:
    """Seed the global generator in the block, for layers that draw from it (dropout), and restore it."""
    with torch.random.fork_rng(devices=[]):
        if device == "cpu":  # the other call takes a stack trace for each kind of device, to seed it later
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)
        yield
