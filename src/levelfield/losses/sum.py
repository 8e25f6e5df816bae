"""Sums of losses as ``sum:ONE+TWO``."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from levelfield.core.errors import UsageError
from levelfield.core.geometry import MinedTuples
from levelfield.core.options import Positive, parameter_annotation
from levelfield.core.registry import RegistryEntry
from levelfield.core.seeds import seed_for
from levelfield.core.sources import CodeSource
from levelfield.losses import LossCard, registry
from levelfield.losses._module import Loss

SHARED = ("num_classes", "embedding_size", "seed")


class WeightedSum(nn.Module):
    """Weighted sum of losses on the same embeddings.

    Args:
        losses: Losses, called with embeddings and labels.
        weights: Weight of each loss; 1 by default.
        takes_tuples: Whether each loss gets the tuples of a miner; all do by default.

    Example:
        >>> import torch
        >>> from levelfield.losses import Contrastive, Triplet
        >>> x, y = torch.eye(4), torch.tensor([0, 0, 1, 1])
        >>> both = WeightedSum([Contrastive(), Triplet(margin=0.1)], weights=[1.0, 0.5])
        >>> bool(both(x, y) == Contrastive()(x, y) + 0.5 * Triplet(margin=0.1)(x, y))
        True
    """

    def __init__(
        self,
        losses: Sequence[nn.Module],
        *,
        weights: Sequence[float] | None = None,
        takes_tuples: Sequence[bool] | None = None,
    ) -> None:
        super().__init__()
        self.losses = nn.ModuleList(losses)
        self.factors = [1.0] * len(losses) if weights is None else [float(weight) for weight in weights]
        self.takes_tuples = [True] * len(losses) if takes_tuples is None else list(takes_tuples)
        if not losses or not len(losses) == len(self.factors) == len(self.takes_tuples):
            raise UsageError(
                f"a sum of {len(losses)} losses has {len(self.factors)} weights; give one weight per loss"
            )

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: MinedTuples | None = None) -> Tensor:
        """Return the sum, a scalar, for embeddings (B x D), labels (B) and, optionally, a miner's tuples."""
        value = embeddings.sum() * 0.0
        for loss, factor, mined in zip(self.losses, self.factors, self.takes_tuples, strict=True):
            given = [tuples] if mined and tuples is not None else []
            value = value + factor * loss(embeddings, labels, *given)
        return value

    def parameters_with_lr(self, lr: float) -> list[tuple[list[nn.Parameter], float | None]]:
        """Return the parameters of all losses, with the learning rates that each loss sets."""
        found: list[tuple[list[nn.Parameter], float | None]] = []
        for loss in self.losses:
            found += (
                loss.parameters_with_lr(lr) if isinstance(loss, Loss) else [(list(loss.parameters()), lr)]
            )
        return found


@registry.family("sum")
def find_sum(name: str) -> RegistryEntry[LossCard]:
    """Return the registry entry of ``sum:name``, such as ``sum:triplet+proxy_anchor``.

    The option ``margin`` of ``triplet`` is called ``triplet_margin``, and its weight ``triplet_weight``.
    """
    names = name.split("+")
    short = [part.rpartition(":")[2] for part in names]  # without the prefix of a family
    if len(names) < 2 or len(set(short)) != len(names) or not all(short) or "sum:" in name:
        raise UsageError(
            f'"sum:{name}" does not name two or more different losses; write e.g. sum:triplet+proxy_anchor'
        )
    parts = {part: registry[full] for part, full in zip(short, names, strict=True)}
    cards = {part: entry.card for part, entry in parts.items()}
    if len({card.embedding for card in cards.values()}) > 1:
        kinds = ", ".join(f"{part} takes {card.embedding} ones" for part, card in cards.items())
        raise UsageError(f"sum:{name}: the losses need the same kind of embeddings, but {kinds}")
    flat = _flat_options(name, parts)

    def make(**options: Any) -> WeightedSum:
        made, weights = [], []
        for number, (part, entry) in enumerate(parts.items()):
            given = {key: options[key] for key in SHARED if key in options and key in entry.parameters}
            if "seed" in given:
                given["seed"] = seed_for("sum of losses", given["seed"], number)
            given |= {flat[key][1]: options[key] for key in options if key in flat and flat[key][0] == part}
            weights.append(float(given.pop("weight", 1.0)))
            made.append(registry.create(entry.name, **given))
        mined = [card.tuples is not None for card in cards.values()]
        return WeightedSum(made, weights=weights, takes_tuples=mined)

    make.__signature__ = _signature(parts, flat)  # type: ignore[attr-defined]  # inspect reads it
    make.__annotations__ = {
        key: Positive if option == "weight" else parameter_annotation(parts[part].target, option)
        for key, (part, option) in flat.items()
    }
    return RegistryEntry(make, _card(name, cards), _origin(name, parts))


def _flat_options(name: str, parts: dict[str, RegistryEntry[LossCard]]) -> dict[str, tuple[str, str]]:
    """Return the loss and the option of each flat name."""
    flat: dict[str, tuple[str, str]] = {}
    for part, entry in parts.items():
        for option in ("weight", *(each for each in entry.parameters if each not in SHARED)):
            key = f"{part}_{option}"
            if key in flat:
                raise UsageError(f"sum:{name}: two options are called {key}; these losses cannot be combined")
            flat[key] = part, option
    return flat


def _signature(
    parts: dict[str, RegistryEntry[LossCard]], flat: dict[str, tuple[str, str]]
) -> inspect.Signature:
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [key for key in SHARED if any(key in entry.parameters for entry in parts.values())]
    found = [
        inspect.Parameter(key, keyword, default=0 if key == "seed" else inspect.Parameter.empty)
        for key in shared
    ]
    for key, (part, option) in flat.items():
        default = 1.0 if option == "weight" else parts[part].parameters[option].default
        found.append(inspect.Parameter(key, keyword, default=default))
    return inspect.Signature(found)


def _card(name: str, cards: dict[str, LossCard]) -> LossCard:
    """Return the card of the sum: what any of its losses needs."""
    several = list(cards.values())
    classifies = any(card.kind == "classification" for card in several)
    return LossCard(
        name=f"sum:{name}",
        summary=f"Weighted sum of {' and '.join(card.name for card in several)}.",
        space={f"{part}_{key}": each for part, card in cards.items() for key, each in card.space.items()},
        kind="classification" if classifies else "embedding",
        tuples=next((card.tuples for card in several if card.tuples is not None), None),
        embedding=several[0].embedding,
        own_lr=any(card.own_lr for card in several),
        loss_lr=next((card.loss_lr for card in several if card.own_lr), several[0].loss_lr),
        compares_samples=classifies and any(c.kind == "embedding" or c.compares_samples for c in several),
        recorded=tuple(f"{part}_{key}" for part, card in cards.items() for key in card.recorded),
    )


def _origin(name: str, parts: dict[str, RegistryEntry[LossCard]]) -> CodeSource | None:
    """Return the source of all parts that are not part of this package; None if all are."""
    digests = [f"{entry.name} {entry.source}" for entry in parts.values() if entry.source is not None]
    return CodeSource(f"sum:{name}", "; ".join(digests)) if digests else None
