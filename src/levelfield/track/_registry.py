"""The registry of trackers, and what is refused before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from levelfield.config import TrackSpec
from levelfield.errors import UsageError
from levelfield.registry import Card, Registry


@dataclass(frozen=True, kw_only=True)
class TrackerCard(Card):
    """What is known of a tracker.

    Attributes:
        package: What must be installed, by the extra of the same name.
        look: The command that shows what it keeps in ``{folder}``, where its options send it nowhere else.
        environment: Variables that say where it sends things, as options do.
    """

    package: str = ""
    look: str = ""
    environment: tuple[str, ...] = ()


registry: Registry[TrackerCard] = Registry(
    "tracker", TrackerCard, package="levelfield.track", supplied=("experiment", "folder")
)
register = registry.register


def check(spec: TrackSpec) -> None:
    """Refuse a tracker that is not known or not installed, and options that it does not take."""
    entry = registry[spec.name]
    if entry.card.package and find_spec(entry.card.package) is None:
        raise UsageError(
            f"tracker {spec.name} is not installed; `pip install 'levelfield[{spec.name}]'`, or leave it out"
        )
    registry.check_options(entry, spec.options)
