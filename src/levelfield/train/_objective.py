"""What a step minimises: the loss on mined tuples, with the additions that a method may name.

Additions are hyperparameters like any other: ``mixup.alpha`` blends samples before the head,
``memory.capacity`` (from step ``memory.start`` on) compares the batch with past batches, and
``regulariser.NAME`` is the weight of a regulariser, ``regulariser.NAME.OPTION`` one of its options;
``synthesis.NAME`` adds samples that are made from the batch, ``s2sd.weight`` branches to learn from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from levelfield import losses, miners
from levelfield.batches.cross_batch import CrossBatchMemory
from levelfield.batches.mixup import mix
from levelfield.losses import synthesis
from levelfield.losses.global_batch import gather
from levelfield.losses.synthesis import Samples
from levelfield.methods import chosen_regularisers, chosen_synthesis, part_options
from levelfield.models import Embedder
from levelfield.records import RunSpec
from levelfield.seeds import seed_for, torch_generator
from levelfield.train._optim import Learner, loss_learners
from levelfield.train._s2sd import Branches, Distillation
from levelfield.train._terms import Term


class NotFiniteError(ArithmeticError):
    """NaN or infinity in the embeddings, or in what the loss itself has learned: it can tell nothing."""


class Objective(nn.Module):
    """The loss of a batch, and everything it remembers from one batch to the next."""

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
        self._mixing = torch.Generator()
        self._memory_start = int(memory.get("start", 0))
        capacity = int(memory.get("capacity", 0))
        self._memory = CrossBatchMemory(capacity, embedding_size) if capacity else None
        given = {"num_classes": num_classes, "embedding_size": embedding_size}
        self.terms = [
            Term(choice, **given, seed=seed_for(spec.seed, "regulariser", choice.name))
            for choice in chosen_regularisers(options)
        ]
        self._terms = nn.ModuleList(self.terms)
        made = chosen_synthesis(options)
        self.synthesis = None if made is None else synthesis.create(made[0], **made[1])
        self._synthesising = torch.Generator()
        distillation = part_options(options, "s2sd")
        self.branches: Branches | None = None
        if distillation:
            assert feature_size is not None
            self.branches = Branches(
                Distillation(**distillation),  # type: ignore[arg-type]  # Method.check has seen to their types
                feature_size=feature_size,
                make_loss=lambda width: _create_loss(spec, num_classes, width),
                seed=seed_for(spec.seed, "s2sd"),
            )
        self._steps = 0

    def learners(self, *, loss_lr: float) -> list[Learner]:
        """What a step trains besides the network and the loss."""
        found = [Learner(f"regulariser {term.name}", list(term.parameters()), term.lr) for term in self.terms]
        if self.branches is not None:
            found.append(Learner("branches", list(self.branches.networks.parameters()), None))
            for loss in self.branches.losses:
                found += loss_learners(loss, loss_lr)
        return found

    def start_epoch(self, epoch: int) -> None:
        """Begin the random streams of an epoch."""
        self._mixing = torch_generator(self._seed, "mixup", epoch)
        self._synthesising = torch_generator(self._seed, "synthesis", epoch)
        if self.miner is not None:
            miners.reseed(self.miner, seed_for(self._seed, "miner", epoch))

    def forward(
        self, embedder: Embedder, inputs: Tensor, labels: Tensor, known: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The loss (scalar) of a batch of images or features with labels (B), and its embeddings (B x D).

        If the embeddings are ``known``, they are not computed. Under torchrun, inputs are this rank's
        share; loss and embeddings are those of all ranks together.
        """
        try:
            return self._of_batch(embedder, inputs, labels, known)
        except Exception as error:
            # What counts, sorts or factorises raises its own kind of error on a class weight that is NaN.
            if all(bool(torch.isfinite(parameter).all()) for parameter in self.parameters()):
                raise
            raise NotFiniteError("the loss's own parameters are not finite") from error

    def _of_batch(
        self, embedder: Embedder, inputs: Tensor, labels: Tensor, known: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        self._steps += 1
        if self._mixup_alpha is not None:
            features = inputs if self._frozen else embedder.features(inputs)
            mixed = mix(features, labels, alpha=self._mixup_alpha, generator=self._mixing)
            embeddings = embedder.project(mixed.features)
            value = mixed.loss(lambda entry: self._loss_of(*gather(embeddings, entry)))
        elif self.branches is not None:
            features = inputs if self._frozen else embedder.features(inputs)
            embeddings, of_all = gather(embedder.project(features), labels)
            features, labels = gather(features, labels)[0], of_all
            value = self.branches(
                self._loss_of(embeddings, labels),
                embeddings,
                features,
                labels,
                step=self._steps,
                loss_of=lambda loss, wide, labels: self._mined(loss, Samples(wide, labels)),
            )
        else:
            if known is None:
                known = embedder.project(inputs) if self._frozen else embedder(inputs)
            embeddings, labels = gather(known, labels)
            if self._memory is not None and self._steps > self._memory_start:
                value = self._loss_with_memory(self._memory, embeddings, labels)
            else:
                value = self._loss_of(embeddings, labels)
        for term in self.terms:
            value = value + term(embeddings, labels, getattr(self.loss, "weights", None))
        return value, embeddings

    def _loss_of(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        _check_finite(embeddings)
        batch = Samples(embeddings, labels)
        if self.synthesis is None:
            return self._loss_of_samples(batch)
        batch = replace(batch, proxies=getattr(self.loss, "weights", None))
        value: Tensor = self.synthesis(batch, self._loss_of_samples, generator=self._synthesising)
        return value

    def _loss_of_samples(self, batch: Samples) -> Tensor:
        return self._mined(self.loss, batch)

    def _mined(self, loss: nn.Module, batch: Samples) -> Tensor:
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
        tuples: miners.Tuples
        if self.miner is None:
            tuples = miners.pairs_of_anchors(their_labels, len(labels))
        else:
            with torch.no_grad():
                mined = self.miner(everything, their_labels)
            tuples = miners.with_anchors_in_batch(mined, len(labels))
        value: Tensor = self.loss(everything, their_labels, tuples)
        memory.push(embeddings, labels)
        return value

    def state(self) -> dict[str, Any]:
        """What a resumed run needs besides the epoch."""
        return {
            "loss": self.loss.state_dict(),
            "memory": {} if self._memory is None else self._memory.state_dict(),
            "terms": self._terms.state_dict(),
            "branches": {} if self.branches is None else self.branches.state_dict(),
            "synthesis": {} if self.synthesis is None else self.synthesis.state_dict(),
            "steps": self._steps,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Take over what :meth:`state` gave."""
        self.loss.load_state_dict(state["loss"])
        if self._memory is not None:
            self._memory.load_state_dict(state["memory"])
        if "terms" in state:  # no run from before there was such a key has a term that learns
            self._terms.load_state_dict(state["terms"])
        if self.branches is not None:
            self.branches.load_state_dict(state["branches"])
        if self.synthesis is not None:
            self.synthesis.load_state_dict(state["synthesis"])
        self._steps = state["steps"]


def _check_finite(embeddings: Tensor) -> None:
    """Losses and miners that count or sort would raise something else, or go on as if all were well."""
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
