"""A method: loss + miner + batch sampler + regulariser + its search space. The unit that is compared."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import Field

from levelfield import batches, losses, miners
from levelfield.config import BatchSpec, MethodSpec
from levelfield.errors import UsageError, did_you_mean
from levelfield.losses import regularisers, synthesis
from levelfield.options import Positive, Size, annotation_of, check_value
from levelfield.space import Choice, Dimension, Float, Int, Space, Value, describe, values_of

LOSS_LR = "loss_lr"
LOSS_LR_RANGE = Float(1e-6, 1.0, log=True)
ADDITIONS: Mapping[str, Any] = {
    "mixup.alpha": Positive,
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
    """The recipe of a method.

    Hyperparameters have flat names: a loss's own (``margin``), ``miner.NAME``, ``sampler.NAME``, ``loss_lr``
    for the learning rate of the loss's own parameters, and the additions ``mixup.alpha``,
    ``memory.capacity``, ``memory.start``, ``s2sd.weight`` (its options are ``s2sd.OPTION``),
    ``regulariser.NAME`` (a weight; its options are ``regulariser.NAME.OPTION``) and ``synthesis.NAME`` (an
    amount, with options likewise), which are off unless set or searched.

    Attributes:
        name: What reports call it.
        loss: Registered name of the loss.
        miner: Registered name of the miner; None hands the loss all tuples of the batch.
        sampler: Registered name of the batch sampler.
        samples_per_class: M of the batches; None takes the protocol's.
        fixed: Hyperparameters that are part of the recipe and not searched.
        ranges: Search ranges that replace those of the parts.
        published: Recommended values by dataset, where the paper gives other ones for each.
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
        """The card of the loss."""
        return losses.registry[self.loss].card

    @property
    def space(self) -> dict[str, Dimension]:
        """What is searched: the parts' spaces, less what is fixed."""
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
        """Every hyperparameter that may be set, searched or not."""
        reserved = {"num_classes", "embedding_size", "seed", "generator"}
        names = [name for name in losses.registry[self.loss].parameters if name not in reserved]
        if self.card.own_lr:
            names.append(LOSS_LR)
        if self.miner is not None:
            found = miners.registry[self.miner].parameters
            names += [f"miner.{name}" for name in found if name not in reserved]
        reserved |= {"labels", "batch_size", "samples_per_class"}
        found = batches.registry[self.sampler].parameters
        names += [f"sampler.{name}" for name in found if name not in reserved]
        return [*names, *ADDITIONS, *_regulariser_parameters(), *_synthesis_parameters()]

    def defaults(self, dataset: str = "") -> dict[str, Value]:
        """The papers' values for everything in the space, those for ``dataset`` where they are given."""
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

    def with_samples(self, batch: BatchSpec) -> int:
        """M: samples per class in a batch, under this protocol."""
        if self.samples_per_class is not None:
            return self.samples_per_class
        if self.card.kind == "classification":
            return batch.samples_per_class_classification
        return batch.samples_per_class

    def check(self, hyperparameters: Mapping[str, Value]) -> dict[str, Value]:
        """The values as the parts take them; refused are unknown names, wrong types, values out of range."""
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
                    f"method {self.name}: {name} = {value} is outside its range {describe(full[name])}; "
                    f"choose a value inside, or widen the range with `space: {{{name}: [low, high]}}`"
                )
            checked[name] = self._typed(name, value)
        return checked

    def _typed(self, name: str, value: Value) -> Value:
        part, _, option = name.rpartition(".")
        match part:
            case "":
                annotation = (
                    Positive if name == LOSS_LR else annotation_of(losses.registry[self.loss].target, name)
                )
            case "miner":
                annotation = annotation_of(miners.registry[str(self.miner)].target, option)
            case "sampler":
                annotation = annotation_of(batches.registry[self.sampler].target, option)
            case str() if part.startswith("regulariser."):
                entry = regularisers.registry[part.removeprefix("regulariser.")]
                annotation = Positive if option == "lr" else annotation_of(entry.target, option)
            case "synthesis":
                made = synthesis.registry[option]
                annotation = annotation_of(made.target, made.card.amount)
            case str() if part.startswith("synthesis."):
                made = synthesis.registry[part.removeprefix("synthesis.")]
                annotation = annotation_of(made.target, option)
            case _:
                annotation = ADDITIONS.get(name, Positive)
        typed: Value = check_value(value, annotation, name=f"method {self.name}: {name}")
        return typed


@dataclass(frozen=True)
class RegulariserChoice:
    """A regulariser as a method names it: ``weight`` times what ``name`` gives with these ``options``."""

    name: str
    weight: float
    options: Mapping[str, Value]
    lr: float | None


def chosen_regularisers(hyperparameters: Mapping[str, Value]) -> list[RegulariserChoice]:
    """The regularisers that flat hyperparameters name, each with its options.

    Example:
        >>> values = {"margin": 0.1, "regulariser.koleo": 0.2, "regulariser.koleo.eps": 1e-6}
        >>> chosen_regularisers(values)
        [RegulariserChoice(name='koleo', weight=0.2, options={'eps': 1e-06}, lr=None)]
    """
    given = part_options(hyperparameters, "regulariser")
    chosen = []
    for name in sorted(name for name in given if "." not in name):
        options = part_options(hyperparameters, f"regulariser.{name}")
        lr = options.pop("lr", regularisers.registry[name].card.lr)
        chosen.append(RegulariserChoice(name, float(given[name]), options, None if lr is None else float(lr)))
    return chosen


def chosen_synthesis(hyperparameters: Mapping[str, Value]) -> tuple[str, dict[str, Value]] | None:
    """The name and the options of the synthesis that flat hyperparameters name; None if they name none.

    Example:
        >>> chosen_synthesis({"synthesis.memvir": 5, "synthesis.memvir.gap": 1})
        ('memvir', {'steps': 5, 'gap': 1})
    """
    given = part_options(hyperparameters, "synthesis")
    for name in sorted(name for name in given if "." not in name):
        amount = {synthesis.registry[name].card.amount: given[name]}
        return name, amount | part_options(hyperparameters, f"synthesis.{name}")
    return None


def _synthesis_parameters() -> list[str]:
    """``synthesis.NAME`` and ``synthesis.NAME.OPTION`` of every synthesis."""
    names = []
    for name in synthesis.registry.names():
        entry = synthesis.registry[name]
        options = [option for option in entry.parameters if option != entry.card.amount]
        names += [f"synthesis.{name}", *(f"synthesis.{name}.{option}" for option in options)]
    return names


def _regulariser_parameters() -> list[str]:
    """``regulariser.NAME`` and ``regulariser.NAME.OPTION`` of every regulariser."""
    supplied = {"embeddings", "labels", "proxies", "num_classes", "embedding_size", "seed"}
    names = []
    for name in regularisers.registry.names():
        entry = regularisers.registry[name]
        options = [option for option in entry.parameters if option not in supplied]
        options += ["lr"] if entry.card.lr is not None else []
        names += [f"regulariser.{name}", *(f"regulariser.{name}.{option}" for option in options)]
    return names


def part_options(hyperparameters: Mapping[str, Value], part: str) -> dict[str, Value]:
    """The options of one part, "loss", "miner" or "sampler", out of flat hyperparameters.

    Example:
        >>> part_options({"margin": 0.1, "miner.epsilon": 0.2, "loss_lr": 1e-3}, "loss")
        {'margin': 0.1}
    """
    if part == "loss":
        return {k: v for k, v in hyperparameters.items() if "." not in k and k != LOSS_LR}
    prefix = f"{part}."
    return {k.removeprefix(prefix): v for k, v in hyperparameters.items() if k.startswith(prefix)}


def apply_spec(method: Method, spec: MethodSpec) -> Method:
    """``method`` with the changes that an experiment file asks for."""
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
    batches.registry[changed.sampler]
    for name in spec.space:
        if name not in changed.parameters:
            hint = did_you_mean(name, changed.parameters)
            raise UsageError(f'method {spec.name} has no hyperparameter "{name}" to search{hint}')
        for value in values_of(changed.ranges[name]):
            changed._typed(name, value)
    return replace(changed, fixed=changed.check(changed.fixed))


def parse_range(name: str, value: list[Value]) -> Dimension:
    """A range as an experiment file writes it: two bounds, ``log`` or ``step`` and its size; or choices.

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
        raise UsageError(f"search range of {name} = {value}: {error}") from error
