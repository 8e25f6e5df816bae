"""What only the network can tell of an experiment: cuts, layers to train, how the head can start."""

from __future__ import annotations

from itertools import product

import torch

from levelfield import models
from levelfield.config import Plugin
from levelfield.data import transforms
from levelfield.errors import UsageError
from levelfield.protocol._resolved import Resolved
from levelfield.seeds import torch_generator
from levelfield.train import Resources, build_embedder


def check_network(resolved: Resolved) -> None:
    """What only the network can tell: cuts, the layers of lora, whether the head can start as asked."""
    experiment = resolved.experiment
    trunk, head, training = resolved.trunk, experiment.head, experiment.training
    if trunk.mode == "tail" and trunk.views == 0 and _augments(experiment.transform):
        raise UsageError(
            f"trunk.views is 0, but transform {experiment.transform.name} augments images in training; set "
            "trunk.views to the number of augmented views to keep, or take a transform that does not augment"
        )
    for method, addition in product(resolved.methods, ("mixup.alpha", "s2sd.weight")):
        if training.chunk is not None and addition in {*method.fixed, *method.space}:
            raise UsageError(
                f"training.chunk cannot be used with {addition.partition('.')[0]}, which method "
                f"{method.name} has; leave one of them out"
            )
    plain = trunk.mode in ("finetune", "frozen") and (head.kind == "linear" or head.init == "random")
    recompute = experiment.engine.recompute and trunk.mode != "frozen"
    if recompute and trunk.mode == "tail":
        raise UsageError(
            "engine.recompute does not go with trunk.mode tail, which keeps little anyway; leave it out"
        )
    if plain and training.chunk is None and not recompute:
        return
    spec = resolved.run_spec(resolved.methods[0], {}, fold=0, seed=0)
    embedder = build_embedder(spec, Resources(recompute=recompute))  # its weights do not matter here
    models.check_init(embedder.head, head.init)
    if trunk.mode in ("lora", "bitfit", "norm") and not embedder.parameter_groups()["trunk"]:
        raise UsageError(
            f"trunk.mode {trunk.mode} has nothing to train here: trunk.freeze_bn freezes the layers that it "
            "would train; leave trunk.freeze_bn out, or set it to true"
        )
    trains_batch_norms = trunk.mode != "frozen" and trunk.bn_mode == "train" and embedder.batch_norms()
    if training.chunk is not None and trains_batch_norms:
        raise UsageError(
            "training.chunk needs trunk.freeze_bn: BatchNorm layers in training mode would see chunks "
            "instead of the whole batch"
        )
    if recompute and trains_batch_norms:
        raise UsageError(
            "engine.recompute needs trunk.freeze_bn: BatchNorm layers in training mode would count each "
            "batch twice in their statistics"
        )


def _augments(transform: Plugin) -> bool:
    """Whether a transform does something else in training than in evaluation."""
    train, evaluate = (
        transforms.create(transform.name, train=train, **transform.options) for train in (True, False)
    )
    if " at 0x" not in repr(train) + repr(evaluate):
        return repr(train) != repr(evaluate)
    # What prints nothing but its address must show what it does.
    picture = torch.randint(0, 256, (3, 320, 288), dtype=torch.uint8, generator=torch_generator("augments"))
    try:
        expected = evaluate([picture], torch_generator("augments", "evaluation"))
        made = [train([picture], torch_generator("augments", number)) for number in range(8)]
    except Exception:  # it wants other pictures, and a plug-in may raise anything
        return True
    return not all(torch.equal(expected, one) for one in made)
