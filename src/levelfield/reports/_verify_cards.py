"""Check of an experiment against the cards of methods, losses and metrics: names mean what they say.

Only names of this package, and of plug-ins that are loaded, can be checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from levelfield.analysis import Comparison, MetricInfo, metric_info
from levelfield.config import Experiment, MethodSpec
from levelfield.core.errors import LevelfieldError
from levelfield.methods import Method, resolve_method
from levelfield.records import Search, space_record


def check_cards(comparison: Comparison) -> Iterator[str]:
    """Yield a sentence for each method whose runs are of another one, and each metric with a wrong label."""
    experiment = comparison.experiment
    specs = {spec.name: spec for spec in experiment.methods}
    for result in comparison.trained:
        for repeat in result.repeats:
            if repeat.search is not None and result.method in specs:
                yield from _check_method(experiment, specs[result.method], repeat.search)
    for name, recorded in comparison.metric_infos.items():
        known = metric_info(name)
        is_known = known.label != name or known.higher_is_better is not None
        if is_known and recorded != known:
            yield f"experiment.json shows metric {name} as {_words(recorded)}, but it is {_words(known)}"


def _check_method(experiment: Experiment, spec: MethodSpec, search: Search) -> Iterator[str]:
    recipe = search.run.recipe
    if recipe.sources or search.method_source is not None:
        return  # a plug-in, which may not be loaded, or has changed
    try:
        method = resolve_method(spec)
    except LevelfieldError:  # of a plug-in, or of another version
        return
    used = (recipe.loss, recipe.miner, recipe.sampler)
    if used != (method.loss, method.miner, method.sampler):
        stated = _parts(method.loss, method.miner, method.sampler)
        yield f"{spec.name} is {stated}, but its runs are of {_parts(*used)}"
        return
    yield from _check_kind(experiment, method, search)
    if experiment.hyperparameters == "search" and experiment.search.ranges == "own":
        unsaid = sorted(search.run.hyperparameters.keys() - method.fixed.keys())
        if unsaid:
            yield f"{spec.name} has fixed values that experiment.json does not state: {', '.join(unsaid)}"
    for name, stated_range in space_record({n: method.ranges[n] for n in spec.space}).items():
        if name not in method.fixed and search.space.get(name) != stated_range:
            yield f"experiment.json has another range of {name} than the search of {spec.name}"


def _check_kind(experiment: Experiment, method: Method, search: Search) -> Iterator[str]:
    """Yield a sentence if a method has the learning rates or batches of the other kind of loss."""
    kind = method.card.kind
    if search.run.optimizer != experiment.optimizer.for_loss_kind(kind):
        yield (
            f"{method.name} was trained with learning rate {search.run.optimizer.lr}, "
            f"not with that of experiment.json for {kind} losses"
        )
    samples = method.resolve_samples_per_class(experiment.batch)
    if search.run.recipe.samples_per_class != samples and not experiment.batch.adapt:
        yield (
            f"{method.name} was trained with {search.run.recipe.samples_per_class} samples per class, "
            f"not with {samples} as in experiment.json"
        )


def _parts(loss: str, miner: str | None, sampler: str) -> str:
    return f"loss {loss} with {'no miner' if miner is None else f'miner {miner}'} and sampler {sampler}"


def _words(info: MetricInfo) -> str:
    directions = {True: "higher is better", False: "lower is better", None: "no direction"}
    return f"{info.label} ({info.unit or 'a plain number'}, {directions[info.higher_is_better]})"
