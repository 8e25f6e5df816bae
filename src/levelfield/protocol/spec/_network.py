"""Checks of an experiment that need the network: cuts, trainable layers, initialization of the head."""

from __future__ import annotations

from itertools import product

import torch

from levelfield import models
from levelfield.config import Experiment, Plugin
from levelfield.core.errors import UsageError
from levelfield.core.seeds import torch_generator
from levelfield.core.space import range_values
from levelfield.data import transforms
from levelfield.data.views import DevelopmentView
from levelfield.protocol.spec._resolved import ResolvedExperiment
from levelfield.train import Resources, build_embedder, find_layers


def check_network(resolved: ResolvedExperiment) -> None:
    """Raise if the experiment does not fit the network: cuts, layers of lora, head initialization."""
    experiment = resolved.experiment
    trunk, head, training = resolved.trunk, experiment.head, experiment.training
    if trunk.mode == "tail" and trunk.views == 0 and _augments(experiment.transform):
        raise UsageError(
            f"trunk.views is 0, but transform {experiment.transform.name} augments images in training; set "
            "trunk.views to the number of augmented views to cache, or use a transform without augmentation"
        )
    for method, addition in product(resolved.methods, ("mixup.alpha", "s2sd.weight")):
        if training.chunk is not None and addition in {*method.fixed, *method.space}:
            raise UsageError(
                f"training.chunk cannot be used with {addition.partition('.')[0]}, which method "
                f"{method.name} has; leave one of them out"
            )
    _check_mixed_layers(resolved)
    plain = trunk.mode in ("finetune", "frozen") and (head.kind == "linear" or head.init == "random")
    recompute = experiment.engine.recompute and trunk.mode != "frozen"
    if recompute and trunk.mode == "tail":
        raise UsageError(
            "engine.recompute cannot be used with trunk.mode tail, which needs little memory; leave it out"
        )
    if plain and training.chunk is None and not recompute:
        return
    spec = resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0)
    embedder = build_embedder(spec, Resources(recompute=recompute))  # without pretrained weights
    models.check_head_init(embedder.head, head.init)
    if trunk.mode in ("lora", "bitfit", "norm") and not embedder.parameter_groups()["trunk"]:
        raise UsageError(
            f"trunk.mode {trunk.mode} has nothing to train here: trunk.freeze_bn freezes the layers that it "
            "would train; leave trunk.freeze_bn out, or set it to true"
        )
    trains_batch_norms = trunk.mode != "frozen" and trunk.bn_mode == "train" and embedder.batch_norms()
    if training.chunk is not None and trains_batch_norms:
        raise UsageError(
            "training.chunk needs trunk.freeze_bn: BatchNorm layers in training mode would see chunks "
            "instead of the whole batch; set trunk.freeze_bn, or leave training.chunk out"
        )
    if recompute and trains_batch_norms:
        raise UsageError(
            "engine.recompute needs trunk.freeze_bn: BatchNorm layers in training mode would count each "
            "batch twice in their statistics; set trunk.freeze_bn, or leave engine.recompute out"
        )


def check_channels(experiment: Experiment, view: DevelopmentView) -> None:
    """Raise if the trunk takes gray images and these have colors, as with the preset ``demo``."""
    if experiment.trunk.options.get("in_channels") != 1:
        return
    transform = experiment.transform
    try:
        image = view.dataset.images.read(0)
        evaluate = transforms.create(transform.name, train=False, **transform.options)
        found = len(evaluate([image], torch_generator("channels"))[0])
    except Exception:  # an image that cannot be read, or a plug-in that needs others: the run says it better
        return
    if found > 1:
        raise UsageError(
            f"the images have {found} channels, but trunk {experiment.trunk.name} takes 1; set "
            f"trunk.in_channels: {found}, or choose another trunk, as `preset: laptop` does"
        )


def _check_mixed_layers(resolved: ResolvedExperiment) -> None:
    """Raise if a method mixes layers that the trunk does not have, or does not compute in training."""
    key = "mixup.layers"
    for method in resolved.methods:
        named = [method.fixed[key]] if key in method.fixed else []
        named += [*range_values(method.space[key])] if key in method.space else []
        if named and resolved.trunk.mode == "frozen":
            raise UsageError(
                f"method {method.name} mixes layers of the trunk, but trunk.mode is frozen; train the trunk, "
                f"or leave {key} out"
            )
        for layers in named:
            spec = resolved.run_spec(method, {}, fold=0, seed=0)
            find_layers(build_embedder(spec, Resources()).trunk, str(layers))


def _augments(transform: Plugin) -> bool:
    """Return True if a transform differs between training and evaluation."""
    train, evaluate = (
        transforms.create(transform.name, train=train, **transform.options) for train in (True, False)
    )
    if " at 0x" not in repr(train) + repr(evaluate):
        return repr(train) != repr(evaluate)
    # The text shows only an address, so compare outputs instead.
    image = torch.randint(0, 256, (3, 320, 288), dtype=torch.uint8, generator=torch_generator("augments"))
    try:
        expected = evaluate([image], torch_generator("augments", "evaluation"))
        made = [train([image], torch_generator("augments", number)) for number in range(8)]
    except Exception:  # it needs other images; a plug-in may raise anything
        return True
    return not all(torch.equal(expected, one) for one in made)
