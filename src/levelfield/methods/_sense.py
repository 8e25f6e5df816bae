"""Combinations that make no sense are refused when an experiment is loaded, with a reason."""

from __future__ import annotations

from levelfield import batches, losses, miners
from levelfield.errors import UsageError
from levelfield.losses import regularisers, synthesis
from levelfield.methods._method import Method

RHO_LOSSES = ("contrastive", "triplet", "margin", "snr_contrastive", "snr_triplet")


def check_sense(method: Method, *, samples_per_class: int) -> None:
    """UsageError if the parts of a method cannot work together.

    Args:
        method: The recipe.
        samples_per_class: M of its batches under the protocol.
    """
    for reason in _objections(method, samples_per_class):
        raise UsageError(f"method {method.name}: {reason}")


def _objections(method: Method, samples_per_class: int) -> list[str]:
    loss = losses.registry[method.loss].card
    sampler = batches.registry[method.sampler]
    memory = "memory.capacity" in method.fixed or "memory.capacity" in method.space
    mixup = "mixup.alpha" in method.fixed or "mixup.alpha" in method.space
    takes_m = "samples_per_class" in sampler.parameters
    found = []
    if method.miner is not None:
        miners.registry[method.miner]
        if loss.tuples is None:
            found.append(
                f"loss {method.loss} takes no tuples, so it cannot use miner {method.miner}; leave it out"
            )
        if method.miner == "rho_switch" and method.loss not in RHO_LOSSES:
            found.append(
                f"rho_switch is defined for the tuple losses {', '.join(RHO_LOSSES)}, not for {method.loss}"
            )
    if loss.kind == "embedding" and takes_m and samples_per_class == 1:
        found.append(
            f"loss {method.loss} compares samples of one class, but batches hold 1 sample per class; "
            "set samples_per_class to 2 or more"
        )
    if memory and loss.tuples != "pairs":
        found.append(f"cross-batch memory serves losses of pairs, and {method.loss} is none; leave it out")
    if mixup and (memory or sampler.card.needs_bank):
        found.append("blended samples must not be remembered; use mixup without a memory or embedded sampler")
    return [
        *found,
        *_objections_to_regularisers(method),
        *_objections_to_synthesis(method),
        *_objections_to_s2sd(method),
    ]


def _objections_to_regularisers(method: Method) -> list[str]:
    names = {*method.fixed, *method.space}
    found = []
    for full in sorted(name for name in names if name.startswith("regulariser.")):
        _, name, *option = full.split(".")
        if option and f"regulariser.{name}" not in names:
            found.append(f"{full} is set, but regulariser.{name} has no weight; set regulariser.{name} too")
        if "proxies" in regularisers.registry[name].card.sees and not losses.has_proxies(method.loss):
            found.append(
                f"regulariser {name} works on one proxy for each class, and loss {method.loss} does not have "
                "them; leave it out"
            )
        if "mixup.alpha" in names and "labels" in regularisers.registry[name].card.sees:
            found.append(f"regulariser {name} goes by labels, and samples of mixup have two; leave one out")
    return found


def _objections_to_synthesis(method: Method) -> list[str]:
    names = {*method.fixed, *method.space}
    used = sorted({name.split(".")[1] for name in names if name.startswith("synthesis.")})
    found = []
    if len(used) > 1:
        found.append(f"there is one synthesis to a method, not {' and '.join(used)}; leave the others out")
    for name in used:
        if f"synthesis.{name}" not in names:
            found.append(f"an option of synthesis {name} is set, but not how much; set synthesis.{name} too")
        card, defined = losses.registry[method.loss].card, synthesis.registry[name].card.losses
        if defined and method.loss not in defined:
            found.append(f"synthesis {name} is defined for {' and '.join(defined)}, not for {method.loss}")
        if synthesis.registry[name].card.needs == "pairs":
            if card.tuples != "pairs":
                found.append(f"synthesis {name} makes pairs, and loss {method.loss} takes none; leave it out")
        elif not losses.takes_more_classes(method.loss):
            found.append(
                f"synthesis {name} makes classes, and loss {method.loss} cannot take more than it has: that "
                "takes unit vectors, one for each class, and nothing else; leave it out"
            )
        if {"mixup.alpha", "memory.capacity"} & names:
            found.append(f"synthesis {name} goes with neither mixup nor a memory; leave one out")
    return found


def _objections_to_s2sd(method: Method) -> list[str]:
    names = {*method.fixed, *method.space}
    if not any(name.startswith("s2sd.") for name in names):
        return []
    found = []
    if "s2sd.weight" not in names:
        found.append("an option of s2sd is set, but no weight; set s2sd.weight too")
    if losses.registry[method.loss].card.embedding == "raw":
        found.append(f"s2sd compares unit embeddings, and loss {method.loss} is defined on raw ones")
    if any(name.startswith(("mixup.", "memory.", "synthesis.")) for name in names):
        found.append("s2sd goes with neither mixup nor a memory nor a synthesis; leave one out")
    return found
