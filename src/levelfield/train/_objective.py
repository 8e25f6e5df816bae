"""Training objective: the loss on mined tuples, with the optional parts of a method.

Hyperparameters add the parts. ``mixup.alpha`` mixes samples before the head, or after a random one of the
trunk's layers that ``mixup.layers`` names. ``memory.capacity`` compares the
batch with past batches, from step ``memory.start`` on. ``regularizer.NAME`` is the weight of a regularizer,
``regularizer.NAME.OPTION`` one of its options. ``synthesis.NAME`` adds synthetic samples. ``s2sd.weight``
adds branches for self-distillation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from levelfield import losses, miners
from levelfield.core.seeds import seed_for, torch_generator
from levelfield.losses import synthesis
from levelfield.losses.global_batch import gather
from levelfield.losses.synthesis import LossInputs
from levelfield.methods import part_options, selected_regularizers, selected_synthesis
from levelfield.models import Embedder
from levelfield.records import RunSpec
from levelfield.samplers.cross_batch import CrossBatchMemory
from levelfield.samplers.mixup import MixedBatch, mix_batch
from levelfield.train._layer_mixing import LayerMixing
from levelfield.train._optim import ParameterGroup, loss_parameter_groups
from levelfield.train._regularizers import WeightedRegularizer
from levelfield.train._s2sd import S2SDBranches, S2SDOptions


class NotFiniteError(ArithmeticError):
    """NaN or infinity in the embeddings or in the parameters of the loss."""


class Objective(nn.Module):
    """Loss of a batch, with the state that it keeps between batches."""

    def __init__(
        self, spec: RunSpec, *, num_classes: int, embedding_size: int, feature_size: int | None = None
    ) -> None:
        super().__init__()
        options = spec.hyperparameters
        self._seed = spec.seed
        self._frozen = spec.trunk.mode == "frozen"
        self.loss = _create_loss(spec, num_classes, embedding_size)
        self.miner = _create_miner(spec)
        mixup, memory = part_options(options, "mixup"), part_options(options, "memory")
        self._mixup_alpha = float(mixup["alpha"]) if "alpha" in mixup else None
        self._mixup_layers = str(mixup.get("layers", ""))
        self._layer_mixing: LayerMixing | None = None
        self._mixing = torch.Generator()
        self._memory_start = int(memory.get("start", 0))
        capacity = int(memory.get("capacity", 0))
        self._memory = CrossBatchMemory(capacity, embedding_size) if capacity else None
        given = {"num_classes": num_classes, "embedding_size": embedding_size}
        self.regularizers = [
            WeightedRegularizer(choice, **given, seed=seed_for(spec.seed, "regulariser", choice.name))
            for choice in selected_regularizers(options)
        ]
        self._regularizers = nn.ModuleList(self.regularizers)
        made = selected_synthesis(options)
        self.synthesis = None if made is None else synthesis.create(made[0], **made[1])
        self._synthesizing = torch.Generator()
        distillation = part_options(options, "s2sd")
        self.branches: S2SDBranches | None = None
        if distillation:
            assert feature_size is not None
            self.branches = S2SDBranches(
                S2SDOptions(**distillation),  # type: ignore[arg-type]  # Method.check validated the types
                feature_size=feature_size,
                make_loss=lambda width: _create_loss(spec, num_classes, width),
                seed=seed_for(spec.seed, "s2sd"),
            )
        self._steps = 0

    def parameter_groups(self, *, loss_lr: float) -> list[ParameterGroup]:
        """Return the parameters that are trained besides those of the network and the loss."""
        found = [
            ParameterGroup(f"regularizer {term.name}", list(term.parameters()), term.lr)
            for term in self.regularizers
        ]
        if self.branches is not None:
            found.append(ParameterGroup("branches", list(self.branches.networks.parameters()), None))
            for loss in self.branches.losses:
                found += loss_parameter_groups(loss, loss_lr)
        return found

    def start_epoch(self, epoch: int) -> None:
        """Start the random streams of an epoch."""
        self._mixing = torch_generator(self._seed, "mixup", epoch)
        self._synthesizing = torch_generator(self._seed, "synthesis", epoch)
        if self.miner is not None:
            miners.reseed(self.miner, seed_for(self._seed, "miner", epoch))

    def forward(
        self, embedder: Embedder, inputs: Tensor, labels: Tensor, known: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the loss (scalar) and the embeddings (B x D) of a batch of inputs with labels (B).

        ``known`` are the embeddings if they are already computed. Under torchrun, inputs are the shard of
        this rank; loss and embeddings are those of all ranks.
        """
        try:
            return self._compute(embedder, inputs, labels, known)
        except Exception as error:
            # Code that counts, sorts or factorizes raises other errors if a class weight is NaN.
            if all(bool(torch.isfinite(parameter).all()) for parameter in self.parameters()):
                raise
            raise NotFiniteError("the loss's own parameters are not finite") from error

    def _compute(
        self, embedder: Embedder, inputs: Tensor, labels: Tensor, known: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        self._steps += 1
        if self._mixup_alpha is not None:
            mixed = self._mix(embedder, inputs, labels, alpha=self._mixup_alpha)
            embeddings = embedder.project(mixed.features)
            value = mixed.loss(lambda entry: self._compute_loss(*gather(embeddings, entry)))
        elif self.branches is not None:
            features = inputs if self._frozen else embedder.features(inputs)
            embeddings, of_all = gather(embedder.project(features), labels)
            features, labels = gather(features, labels)[0], of_all
            value = self.branches(
                self._compute_loss(embeddings, labels),
                embeddings,
                features,
                labels,
                step=self._steps,
                compute_loss=lambda loss, wide, labels: self._apply_loss(loss, LossInputs(wide, labels)),
            )
        else:
            if known is None:
                known = embedder.project(inputs) if self._frozen else embedder(inputs)
            embeddings, labels = gather(known, labels)
            if self._memory is not None and self._steps > self._memory_start:
                value = self._loss_with_memory(self._memory, embeddings, labels)
            else:
                value = self._compute_loss(embeddings, labels)
        for term in self.regularizers:
            value = value + term(embeddings, labels, getattr(self.loss, "weights", None))
        return value, embeddings

    def _mix(self, embedder: Embedder, inputs: Tensor, labels: Tensor, *, alpha: float) -> MixedBatch:
        if not self._mixup_layers:
            features = inputs if self._frozen else embedder.features(inputs)
            return mix_batch(features, labels, alpha=alpha, generator=self._mixing)
        if self._layer_mixing is None:
            self._layer_mixing = LayerMixing(embedder.trunk, self._mixup_layers)
        return self._layer_mixing.mix(embedder, inputs, labels, alpha=alpha, generator=self._mixing)

    def _compute_loss(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        _check_finite(embeddings)
        batch = LossInputs(embeddings, labels)
        if self.synthesis is None:
            return self._mine_and_compute(batch)
        batch = replace(batch, proxies=getattr(self.loss, "weights", None))
        value: Tensor = self.synthesis(batch, self._mine_and_compute, generator=self._synthesizing)
        return value

    def _mine_and_compute(self, batch: LossInputs) -> Tensor:
        return self._apply_loss(self.loss, batch)

    def _apply_loss(self, loss: nn.Module, batch: LossInputs) -> Tensor:
        value: Tensor
        tuples = batch.tuples
        if tuples is None and self.miner is not None:
            with torch.no_grad():
                tuples = self.miner(batch.embeddings, batch.labels)
        if tuples is not None:
            value = loss(batch.embeddings, batch.labels, tuples)
        elif batch.proxies is not None:
            value = loss(batch.embeddings, batch.labels, weights=batch.proxies)
        else:
            value = loss(batch.embeddings, batch.labels)
        return value

    def _loss_with_memory(self, memory: CrossBatchMemory, embeddings: Tensor, labels: Tensor) -> Tensor:
        _check_finite(embeddings)
        everything, their_labels = memory.join(embeddings, labels)
        tuples: miners.MinedTuples
        if self.miner is None:
            tuples = miners.pairs_of_anchors(their_labels, len(labels))
        else:
            with torch.no_grad():
                mined = self.miner(everything, their_labels)
            tuples = miners.keep_batch_anchors(mined, len(labels))
        value: Tensor = self.loss(everything, their_labels, tuples)
        memory.push(embeddings, labels)
        return value

    def state(self) -> dict[str, Any]:
        """Return the state for resuming, without the epoch."""
        return {
            "loss": self.loss.state_dict(),
            "memory": {} if self._memory is None else self._memory.state_dict(),
            "terms": self._regularizers.state_dict(),
            "branches": {} if self.branches is None else self.branches.state_dict(),
            "synthesis": {} if self.synthesis is None else self.synthesis.state_dict(),
            "steps": self._steps,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Load a state from :meth:`state`."""
        self.loss.load_state_dict(state["loss"])
        if self._memory is not None:
            self._memory.load_state_dict(state["memory"])
        if "terms" in state:  # states of older versions lack the key
            self._regularizers.load_state_dict(state["terms"])
        if self.branches is not None:
            self.branches.load_state_dict(state["branches"])
        if self.synthesis is not None:
            self.synthesis.load_state_dict(state["synthesis"])
        self._steps = state["steps"]


def _check_finite(embeddings: Tensor) -> None:
    """Raise NotFiniteError; losses and miners that count or sort would raise another error, or none."""
    if not bool(torch.isfinite(embeddings.detach().sum())) and not bool(torch.isfinite(embeddings).all()):
        raise NotFiniteError("embeddings are not finite")


def _create_loss(spec: RunSpec, num_classes: int, embedding_size: int) -> nn.Module:
    entry = losses.registry[spec.recipe.loss]
    options: dict[str, Any] = dict(part_options(spec.hyperparameters, "loss"))
    given = {
        "num_classes": num_classes,
        "embedding_size": embedding_size,
        "seed": seed_for(spec.seed, "loss"),
    }
    options |= {name: value for name, value in given.items() if name in entry.parameters}
    return losses.create(spec.recipe.loss, **options)


def _create_miner(spec: RunSpec) -> miners.Miner | None:
    if spec.recipe.miner is None:
        return None
    return miners.create(spec.recipe.miner, **part_options(spec.hyperparameters, "miner"))
