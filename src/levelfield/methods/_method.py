"""Methods: loss, miner, batch sampler, regularizer and search space. The unit of comparison."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field

from levelfield import losses, miners, samplers
from levelfield.config import BatchSpec, MethodSpec
from levelfield.core.errors import UsageError, did_you_mean
from levelfield.core.options import Positive, Size, check_value, parameter_annotation
from levelfield.core.space import Choice, Dimension, Float, Int, Space, Value, describe_range, range_values
from levelfield.losses import regularizers, synthesis

LOSS_LR = "loss_lr"
LOSS_LR_RANGE = Float(1e-6, 1.0, log=True)
ADDITIONS: Mapping[str, Any] = {
    "mixup.alpha": Positive,
    "mixup.layers": Annotated[str, Field(min_length=1, max_length=1000)],
    "memory.capacity": Annotated[int, Field(ge=1, le=10_000_000)],
    "memory.start": Annotated[int, Field(ge=0)],
    "s2sd.weight": Positive,
    "s2sd.branches": Annotated[int, Field(ge=1, le=64)],
    "s2sd.width": Size,
    "s2sd.temperature": Positive,
    "s2sd.feature_weight": Annotated[float, Field(ge=0)],
    "s2sd.feature_start": Annotated[int, Field(ge=0)],
}


@dataclass(frozen=True)
class Method:
    """Method to compare: a loss, a miner, a batch sampler and a search space.

    Hyperparameters have flat names: the options of the loss (``margin``), ``miner.NAME``, ``sampler.NAME``,
    and ``loss_lr`` for the learning rate of the loss's parameters. Optional additions are off unless they
    are set or searched: ``mixup.alpha``, ``mixup.layers``, ``memory.capacity``, ``memory.start``,
    ``s2sd.weight`` (with options ``s2sd.OPTION``), ``regularizer.NAME`` (a weight, with options
    ``regularizer.NAME.OPTION``) and ``synthesis.NAME`` (an amount, with options ``synthesis.NAME.OPTION``).

    Attributes:
        name: Name in reports.
        loss: Registered name of the loss.
        miner: Registered name of the miner. None passes all tuples of the batch to the loss.
        sampler: Registered name of the batch sampler.
        samples_per_class: Samples per class in a batch. Defaults to the protocol's value.
        fixed: Hyperparameters that are set and not searched.
        ranges: Search ranges that replace those of the cards.
        published: Recommended values by dataset, if the paper recommends different ones.
    """

    name: str
    loss: str
    miner: str | None = None
    sampler: str = "class_balanced"
    samples_per_class: int | None = None
    fixed: Mapping[str, Value] = field(default_factory=dict)
    ranges: Space = field(default_factory=dict)
    published: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)

    @property
    def card(self) -> losses.LossCard:
        """Card of the loss."""
        return losses.registry[self.loss].card

    @property
    def space(self) -> dict[str, Dimension]:
        """Search space: those of the loss and the miner, without fixed hyperparameters."""
        space: dict[str, Dimension] = dict(self.card.space)
        if self.card.own_lr:
            space[LOSS_LR] = LOSS_LR_RANGE
        if self.miner is not None:
            miner_space = miners.registry[self.miner].card.space
            space |= {f"miner.{name}": dimension for name, dimension in miner_space.items()}
        space |= self.ranges
        return {name: dimension for name, dimension in space.items() if name not in self.fixed}

    @property
    def parameters(self) -> list[str]:
        """Names of all hyperparameters that can be set."""
        reserved = {"num_classes", "embedding_size", "seed", "generator"}
        names = [name for name in losses.registry[self.loss].parameters if name not in reserved]
        if self.card.own_lr:
            names.append(LOSS_LR)
        if self.miner is not None:
            found = miners.registry[self.miner].parameters
            names += [f"miner.{name}" for name in found if name not in reserved]
        reserved |= {"labels", "batch_size", "samples_per_class"}
        found = samplers.registry[self.sampler].parameters
        names += [f"sampler.{name}" for name in found if name not in reserved]
        return [*names, *ADDITIONS, *_regularizer_parameters(), *_synthesis_parameters()]

    def defaults(self, dataset: str = "") -> dict[str, Value]:
        """Return recommended values for the search space, for ``dataset`` if the paper gives such values."""
        sources = {"": losses.registry[self.loss].parameters}
        if self.miner is not None:
            sources["miner."] = miners.registry[self.miner].parameters
        values: dict[str, Value] = {LOSS_LR: self.card.loss_lr} if self.card.own_lr else {}
        for prefix, parameters in sources.items():
            for name, parameter in parameters.items():
                if parameter.default is not inspect.Parameter.empty:
                    values[prefix + name] = parameter.default
        values |= self.published.get(dataset, {})
        return {name: values[name] for name in self.space if name in values}

    @property
    def recorded(self) -> dict[str, Value]:
        """Options that every run records, at their defaults: those whose default has changed.

        Without them, a run of today and a run from before the change would have the same digest.
        """
        parameters = losses.registry[self.loss].parameters
        found: dict[str, Value] = {name: parameters[name].default for name in self.card.recorded}
        for name in {*self.fixed, *self.space}:
            part, _, option = name.partition(".")
            if part == "synthesis" and "." not in option:
                entry = synthesis.registry[option]
                found |= {f"{name}.{each}": entry.parameters[each].default for each in entry.card.recorded}
        return found

    def resolve_samples_per_class(self, batch: BatchSpec) -> int:
        """Return the samples per class in a batch: the method's own value, else the protocol's."""
        if self.samples_per_class is not None:
            return self.samples_per_class
        if self.card.kind == "classification" and not self.card.compares_samples:
            return batch.samples_per_class_classification
        return batch.samples_per_class

    def check_hyperparameters(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return the values in their declared types; raise UsageError for invalid names, types or ranges."""
        known = self.parameters
        checked: dict[str, Value] = {}
        full = replace(self, fixed={}).space
        for name, value in hyperparameters.items():
            if name not in known:
                raise UsageError(
                    f'method {self.name} has no hyperparameter "{name}"{did_you_mean(name, known)}'
                )
            if name in full and not full[name].contains(value):
                raise UsageError(
                    f"method {self.name}: {name} = {value} is outside its range "
                    f"{describe_range(full[name])}; "
                    f"choose a value inside, or widen the range with `space: {{{name}: [low, high]}}`"
                )
            checked[name] = self._check_type(name, value)
        return checked

    def _check_type(self, name: str, value: Value) -> Value:
        part, _, option = name.rpartition(".")
        match part:
            case "":
                annotation = (
                    Positive
                    if name == LOSS_LR
                    else parameter_annotation(losses.registry[self.loss].target, name)
                )
            case "miner":
                annotation = parameter_annotation(miners.registry[str(self.miner)].target, option)
            case "sampler":
                annotation = parameter_annotation(samplers.registry[self.sampler].target, option)
            case str() if part.startswith("regularizer."):
                entry = regularizers.registry[part.removeprefix("regularizer.")]
                annotation = Positive if option == "lr" else parameter_annotation(entry.target, option)
            case "synthesis":
                made = synthesis.registry[option]
                annotation = parameter_annotation(made.target, made.card.amount)
            case str() if part.startswith("synthesis."):
                made = synthesis.registry[part.removeprefix("synthesis.")]
                annotation = parameter_annotation(made.target, option)
            case _:
                annotation = ADDITIONS.get(name, Positive)
        typed: Value = check_value(value, annotation, name=f"method {self.name}: {name}")
        return typed


@dataclass(frozen=True)
class RegularizerSetting:
    """Regularizer of a method, with its weight, options and learning rate."""

    name: str
    weight: float
    options: Mapping[str, Value]
    lr: float | None


def selected_regularizers(hyperparameters: Mapping[str, Value]) -> list[RegularizerSetting]:
    """Return the regularizers in flat hyperparameters, each with its options.

    Example:
        >>> values = {"margin": 0.1, "regularizer.koleo": 0.2, "regularizer.koleo.eps": 1e-6}
        >>> selected_regularizers(values)
        [RegularizerSetting(name='koleo', weight=0.2, options={'eps': 1e-06}, lr=None)]
    """
    given = part_options(hyperparameters, "regularizer")
    selected = []
    for name in sorted(name for name in given if "." not in name):
        options = part_options(hyperparameters, f"regularizer.{name}")
        lr = options.pop("lr", regularizers.registry[name].card.lr)
        lr = None if lr is None else float(lr)
        selected.append(RegularizerSetting(name, float(given[name]), options, lr))
    return selected


def selected_synthesis(hyperparameters: Mapping[str, Value]) -> tuple[str, dict[str, Value]] | None:
    """Return the name and options of the synthesis in flat hyperparameters; None if there is none.

    Example:
        >>> selected_synthesis({"synthesis.memvir": 5, "synthesis.memvir.gap": 1})
        ('memvir', {'steps': 5, 'gap': 1})
    """
    given = part_options(hyperparameters, "synthesis")
    for name in sorted(name for name in given if "." not in name):
        amount = {synthesis.registry[name].card.amount: given[name]}
        return name, amount | part_options(hyperparameters, f"synthesis.{name}")
    return None


def _synthesis_parameters() -> list[str]:
    """Return ``synthesis.NAME`` and ``synthesis.NAME.OPTION`` of every synthesis."""
    names = []
    for name in synthesis.registry.names():
        entry = synthesis.registry[name]
        options = [option for option in entry.parameters if option != entry.card.amount]
        names += [f"synthesis.{name}", *(f"synthesis.{name}.{option}" for option in options)]
    return names


def _regularizer_parameters() -> list[str]:
    """Return ``regularizer.NAME`` and ``regularizer.NAME.OPTION`` of every regularizer."""
    supplied = {"embeddings", "labels", "proxies", "num_classes", "embedding_size", "seed"}
    names = []
    for name in regularizers.registry.names():
        entry = regularizers.registry[name]
        options = [option for option in entry.parameters if option not in supplied]
        options += ["lr"] if entry.card.lr is not None else []
        names += [f"regularizer.{name}", *(f"regularizer.{name}.{option}" for option in options)]
    return names


def part_options(hyperparameters: Mapping[str, Value], part: str) -> dict[str, Value]:
    """Return the options of one part, such as "loss", "miner" or "sampler", from flat hyperparameters.

    Example:
        >>> part_options({"margin": 0.1, "miner.epsilon": 0.2, "loss_lr": 1e-3}, "loss")
        {'margin': 0.1}
    """
    if part == "loss":
        return {k: v for k, v in hyperparameters.items() if "." not in k and k != LOSS_LR}
    prefix = f"{part}."
    return {k.removeprefix(prefix): v for k, v in hyperparameters.items() if k.startswith(prefix)}


def apply_spec(method: Method, spec: MethodSpec) -> Method:
    """Return ``method`` with the settings of its entry in an experiment file."""
    changed = replace(
        method,
        name=spec.name,
        loss=spec.loss or method.loss,
        miner=spec.miner or method.miner,
        sampler=spec.sampler or method.sampler,
        samples_per_class=spec.samples_per_class or method.samples_per_class,
        fixed={**method.fixed, **spec.set},
        ranges={**method.ranges, **{name: parse_range(name, value) for name, value in spec.space.items()}},
    )
    losses.registry[changed.loss]
    if changed.miner is not None:
        miners.registry[changed.miner]
    samplers.registry[changed.sampler]
    for name in spec.space:
        if name not in changed.parameters:
            hint = did_you_mean(name, changed.parameters)
            raise UsageError(f'method {spec.name} has no hyperparameter "{name}" to search{hint}')
        for value in range_values(changed.ranges[name]):
            changed._check_type(name, value)
    return replace(changed, fixed=changed.check_hyperparameters(changed.fixed))


def parse_range(name: str, value: list[Value]) -> Dimension:
    """Parse a search range of an experiment file: ``[low, high]`` with ``log`` or ``step, SIZE``, or choices.

    Example:
        >>> parse_range("temperature", [0.01, 1.0, "log"])
        Float(low=0.01, high=1.0, log=True, step=None)
        >>> parse_range("base", [0.0, 1.0, "step", 0.1])
        Float(low=0.0, high=1.0, log=False, step=0.1)
        >>> parse_range("miner.kind", ["hard", "easy"])
        Choice(options=('hard', 'easy'))
    """
    numbers = [item for item in value if isinstance(item, int | float) and not isinstance(item, bool)]
    options: dict[str, Any] = {}
    match value[2:]:
        case ["log"]:
            options = {"log": True}
        case ["step", int() | float() as step]:
            options = {"step": step}
    try:
        if len(numbers) != 2 + ("step" in options) or len(value) != len(numbers) + len(options):
            return Choice(*value)
        low, high, *_ = numbers
        if all(isinstance(number, int) for number in numbers):
            return Int(int(low), int(high), **options)
        return Float(float(low), float(high), **options)
    except ValueError as error:
        raise UsageError(f"invalid search range {name}: {value}; {error}") from error
