"""Checks of method combinations, made when an experiment is loaded."""

from __future__ import annotations

from levelfield import losses, miners, samplers
from levelfield.core.errors import UsageError
from levelfield.losses import regularizers, synthesis
from levelfield.methods._method import Method

RHO_LOSSES = ("contrastive", "triplet", "margin", "snr_contrastive", "snr_triplet")


def check_combination(method: Method, *, samples_per_class: int, unit_embeddings: bool | None = None) -> None:
    """Raise UsageError if the parts of a method cannot work together, or if one of them has no effect.

    Args:
        method: Method to check.
        samples_per_class: Samples per class in its batches.
        unit_embeddings: Whether the head gives the loss unit vectors. Defaults to what the loss's card says.
    """
    if unit_embeddings is None:
        unit_embeddings = method.card.embedding == "unit"
    conflicts = [
        *_find_conflicts(method, samples_per_class),
        *_find_parts_without_effect(method, samples_per_class, unit_embeddings),
    ]
    for conflict in conflicts:
        raise UsageError(f"method {method.name}: {conflict}")


def _find_conflicts(method: Method, samples_per_class: int) -> list[str]:
    loss = losses.registry[method.loss].card
    sampler = samplers.registry[method.sampler]
    memory = "memory.capacity" in method.fixed or "memory.capacity" in method.space
    mixup = "mixup.alpha" in method.fixed or "mixup.alpha" in method.space
    takes_samples_per_class = "samples_per_class" in sampler.parameters
    found = []
    if method.miner is not None:
        miners.registry[method.miner]
        if loss.tuples is None:
            found.append(
                f"loss {method.loss} takes no tuples, so it cannot use miner {method.miner}; remove the miner"
            )
        if method.miner == "rho_switch" and method.loss not in RHO_LOSSES:
            found.append(
                f"miner rho_switch works with the losses {', '.join(RHO_LOSSES)}, not with {method.loss}; "
                "choose another miner"
            )
    if loss.kind == "embedding" and takes_samples_per_class and samples_per_class == 1:
        found.append(
            f"loss {method.loss} compares samples of one class, but batches hold 1 sample per class; "
            "set samples_per_class to 2 or more"
        )
    if memory and loss.tuples != "pairs":
        found.append(
            f"cross-batch memory needs a loss of pairs, but {method.loss} is not one; remove memory.capacity"
        )
    if not mixup and "mixup.layers" in {*method.fixed, *method.space}:
        found.append("mixup.layers is set, but not mixup.alpha; set mixup.alpha too")
    if mixup and (memory or sampler.card.needs_bank):
        found.append(
            "mixup cannot be combined with a cross-batch memory or a sampler that needs a memory bank; "
            "remove one"
        )
    return [
        *found,
        *_regularizer_conflicts(method),
        *_synthesis_conflicts(method),
        *_s2sd_conflicts(method),
    ]


def _find_parts_without_effect(method: Method, samples_per_class: int, unit_embeddings: bool) -> list[str]:
    names = {*method.fixed, *method.space}
    counts = "samples_per_class" in samplers.registry[method.sampler].parameters
    found = []
    if method.loss == "group" and counts:
        default = losses.registry["group"].parameters["anchors"].default
        anchors = int(method.fixed.get("anchors", default))
        if anchors >= samples_per_class:
            found.append(
                f"all {samples_per_class} samples of a class in a batch would be anchors, and loss group "
                f"would be cross_entropy; set samples_per_class of the method to {anchors + 1} or more"
            )
    if "regularizer.threshold_consistent_margin" in names and counts and samples_per_class == 1:
        found.append(
            "regularizer threshold_consistent_margin compares samples of one class, but batches hold 1 "
            "sample per class; set samples_per_class of the method to 2 or more"
        )
    if "regularizer.l2" in names and unit_embeddings:
        found.append(
            "regularizer l2 is constant, because the embeddings have unit length; remove it, or set "
            "head.normalize to false"
        )
    return found


def _regularizer_conflicts(method: Method) -> list[str]:
    names = {*method.fixed, *method.space}
    found = []
    for full in sorted(name for name in names if name.startswith("regularizer.")):
        _, name, *option = full.split(".")
        if option and f"regularizer.{name}" not in names:
            found.append(f"{full} is set, but regularizer.{name} has no weight; set regularizer.{name} too")
        if "proxies" in regularizers.registry[name].card.sees and not losses.has_proxies(method.loss):
            found.append(
                f"regularizer {name} needs one proxy per class, but loss {method.loss} does not have them; "
                "remove the regularizer"
            )
        if "mixup.alpha" in names and "labels" in regularizers.registry[name].card.sees:
            found.append(
                f"regularizer {name} needs one label per sample, but mixup gives each sample two; remove one"
            )
    return found


def _synthesis_conflicts(method: Method) -> list[str]:
    names = {*method.fixed, *method.space}
    used = sorted({name.split(".")[1] for name in names if name.startswith("synthesis.")})
    found = []
    if len(used) > 1:
        found.append(f"a method can have one synthesis, not {' and '.join(used)}; remove the others")
    for name in used:
        if f"synthesis.{name}" not in names:
            found.append(
                f"an option of synthesis {name} is set, but not its amount; set synthesis.{name} too"
            )
        card, defined = losses.registry[method.loss].card, synthesis.registry[name].card.losses
        if defined and method.loss not in defined:
            found.append(
                f"synthesis {name} works with {' and '.join(defined)}, not with {method.loss}; remove it"
            )
        if synthesis.registry[name].card.needs == "pairs":
            if card.tuples != "pairs":
                found.append(
                    f"synthesis {name} makes pairs, but loss {method.loss} takes none; remove the synthesis"
                )
        elif not losses.accepts_extra_classes(method.loss):
            found.append(
                f"synthesis {name} makes classes, but loss {method.loss} cannot take additional classes (it "
                "needs one unit vector per class and no other parameters); remove the synthesis"
            )
        if {"mixup.alpha", "memory.capacity"} & names:
            found.append(
                f"synthesis {name} cannot be combined with mixup or a cross-batch memory; remove one"
            )
    return found


def _s2sd_conflicts(method: Method) -> list[str]:
    names = {*method.fixed, *method.space}
    if not any(name.startswith("s2sd.") for name in names):
        return []
    found = []
    if "s2sd.weight" not in names:
        found.append("an option of s2sd is set, but not its weight; set s2sd.weight too")
    if losses.registry[method.loss].card.embedding == "raw":
        found.append(
            f"s2sd needs unit embeddings, but loss {method.loss} is defined on raw ones; remove s2sd"
        )
    if any(name.startswith(("mixup.", "memory.", "synthesis.")) for name in names):
        found.append("s2sd cannot be combined with mixup, a cross-batch memory or a synthesis; remove one")
    return found
