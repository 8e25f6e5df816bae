"""Check of experiment.json against the searches: every setting of the protocol is the one that was used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from levelfield.analysis._results import Comparison, MethodResult
from levelfield.config import Experiment, LoraSpec, MethodSpec
from levelfield.records import NetworkIdentity, RunSpec, Search, TrunkIdentity

AFTER_THE_TRUNK = "head"  # a tail from here on trains no layer of the trunk, and is recorded as frozen
FILE_DIGEST = "sha256:"  # weights of a local file are recorded by their content
Settings = Mapping[str, Any]


def check_settings(comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for each setting of experiment.json that a method was not searched or trained with."""
    experiment = comparison.experiment
    specs = {spec.name: spec for spec in experiment.methods}
    for result in comparison.results:
        for number, repeat in enumerate(result.repeats):
            if repeat.search is not None and result.method in specs:
                yield from _check_search(experiment, specs[result.method], repeat.search, number)
            if repeat.selection.network is not None:
                yield from _check_network(experiment, repeat.selection.network, result.method)
    yield from _check_equal_data(comparison.results)


def _check_search(experiment: Experiment, spec: MethodSpec, search: Search, number: int) -> Iterator[str]:
    run = search.run
    settings, length = experiment.search, experiment.search.max_epochs
    stated: dict[str, Any] = {
        "seed": experiment.seed,
        "batch": experiment.batch.model_copy(update={"adapt": False}).model_dump(),
        "schedule": experiment.schedule.model_dump(),
        "training": experiment.training.model_dump(),
        "selection metric": experiment.training.metric,
        "search": settings.model_dump(include={"sampler", "first", "parallel", "prune"}),
        "length of trials": length if length and length < experiment.training.max_epochs else None,
        "number of the search": number + 1,
        **_method_settings(experiment, spec, run),
    }
    used = {
        "seed": run.seed,
        "batch": run.batch.model_dump(),
        "schedule": run.schedule.model_dump(),
        "training": run.training.model_dump(),
        "selection metric": run.metric.name,
        "search": search.model_dump(include={"sampler", "first", "parallel", "prune"}),
        "length of trials": search.max_epochs,
        "number of the search": search.repeat + 1,
        **{name: value for name, value in _recipe(run).items() if name in stated},
    }
    yield from _compare(stated, used, spec.name)
    yield from _compare(*_network_settings(experiment, run), spec.name)
    yield from _check_optimizer(experiment, run, spec.name)


def _method_settings(experiment: Experiment, spec: MethodSpec, run: RunSpec) -> dict[str, Any]:
    """Return the parts and values that the experiment file gives for a method."""
    stated: dict[str, Any] = {"loss": spec.loss, "miner": spec.miner, "sampler": spec.sampler}
    if not experiment.batch.adapt:  # else it may have been raised
        stated["samples_per_class"] = spec.samples_per_class
    found = {name: value for name, value in stated.items() if value is not None}
    return found | {f"set.{name}": value for name, value in spec.set.items()}


def _recipe(run: RunSpec) -> dict[str, Any]:
    recipe = run.recipe.model_dump(include={"loss", "miner", "sampler", "samples_per_class"})
    return recipe | {f"set.{name}": value for name, value in run.hyperparameters.items()}


def _network_settings(experiment: Experiment, used: RunSpec | NetworkIdentity) -> tuple[Settings, Settings]:
    """Return data, transform, trunk and head, as stated and as used."""
    head = experiment.head.model_dump()
    head["normalize"] = used.head.normalize if head["normalize"] is None else head["normalize"]
    sections = {"dataset": used.data, "split": used.data.split, "transform": used.transform}
    stated: dict[str, Any] = {"head": head, "trunk": _stated_trunk(experiment, used.trunk)}
    found: dict[str, Any] = {"head": used.head.model_dump(), "trunk": _used_trunk(used.trunk)}
    for name, identity in sections.items():
        section = getattr(experiment, name)
        stated[name] = {"name": section.name, **section.options}
        found[name] = {"name": identity.name, **identity.options}
    return stated, found


def _used_trunk(trunk: TrunkIdentity) -> dict[str, Any]:
    shown = ("name", "weights", "mode", "bn_mode", "views", "cut", "lora")
    return {name: getattr(trunk, name) for name in shown} | trunk.options


def _stated_trunk(experiment: Experiment, used: TrunkIdentity) -> dict[str, Any]:
    """Return the trunk of the experiment as a run records it."""
    trunk = experiment.trunk
    mode = "frozen" if trunk.mode == "tail" and trunk.cut == AFTER_THE_TRUNK else trunk.mode
    public = trunk.weights in ("none", "imagenet", "hub") or trunk.weights.startswith("wheel:")
    return {
        "name": trunk.name,
        "weights": trunk.weights if public or not used.weights.startswith(FILE_DIGEST) else used.weights,
        "mode": mode,
        "bn_mode": "train" if mode == "frozen" else trunk.bn_mode,
        "views": trunk.views if mode in ("frozen", "tail") else 0,
        "cut": trunk.cut if mode == "tail" else None,
        "lora": (trunk.lora or LoraSpec()) if mode == "lora" else None,
    } | trunk.options


def _check_optimizer(experiment: Experiment, run: RunSpec, method: str) -> Iterator[str]:
    """Yield a sentence for each setting of the optimizer that neither kind of loss would have used."""
    kinds = [experiment.optimizer.for_loss_kind(kind) for kind in ("embedding", "classification")]
    if run.optimizer not in kinds:
        yield from _compare(
            {"optimizer": kinds[0].model_dump()}, {"optimizer": run.optimizer.model_dump()}, method
        )


def _check_network(experiment: Experiment, network: NetworkIdentity, baseline: str) -> Iterator[str]:
    stated, used = _network_settings(experiment, network)
    head = {**stated["head"], "normalize": True}  # the baseline is scored by cosine similarity
    yield from _compare(
        {**stated, "head": head, "seed": experiment.seed}, {**used, "seed": network.seed}, baseline
    )


def _check_equal_data(results: tuple[MethodResult, ...]) -> Iterator[str]:
    """Yield a sentence for each method whose images or split differ from the first method's."""
    first = None
    for result in results:
        for repeat in result.repeats:
            network = repeat.selection.network
            found = repeat.search.run if repeat.search is not None else network
            if found is None:
                continue
            first = first or (result.method, found)
            if found.data != first[1].data:
                yield (
                    f"{result.method} has other data than {first[0]}: fingerprint {found.data.fingerprint}, "
                    f"not {first[1].data.fingerprint}"
                )
            if (found.trunk, found.transform) != (first[1].trunk, first[1].transform):
                yield f"{result.method} has another trunk or transform than {first[0]}"


def _compare(stated: Settings, used: Settings, method: str) -> Iterator[str]:
    one, other = dict(_flat(stated)), dict(_flat(used))
    for name in dict.fromkeys((*one, *other)):
        if one.get(name) != other.get(name):
            yield (
                f"experiment.json has {name} {one.get(name)}, but {method} was trained with {other.get(name)}"
            )


def _flat(values: Settings, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield (prefix.rstrip(".") if prefix and name == "name" else f"{prefix}{name}"), value
